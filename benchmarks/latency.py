"""Produce to visible: `python -m benchmarks.latency [--rates 100,1000,10000] [--seconds 60] [--methods ...]`.

One driver process a measurement, as `firn sink run` starts it, on the embedded stack. A producer sends orders at a
steady rate; a session asks for COUNT(*) of the table all the time. One partition goes into one table, in order, so the
first count above a record's offset is the moment from which a SELECT returns it. Two marks lie between: the record is
read and converted (RECORD_METADATA:SnowflakeConnectorPushTime), and SNOWPIPE has staged it (the driver's event). The
figures go to benchmarks/results/latency.json and docs/performance.md.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table

from benchmarks.paced import PacedProducer, drop_topic, make_topic
from benchmarks.preload import ensure_stack
from benchmarks.results import write_results
from firn.connector.config import SinkConfig
from firn.errors import FirnError
from firn.produce.run import order_values, prepare
from firn.settings import Settings, load_settings
from firn.sinks.context import SinkContext, resolve
from firn.snowflake.connection import SnowflakeLogin, connect, execute, query

Seconds = npt.NDArray[np.float64]
POLL_SECONDS = 0.02
START_SECONDS, DRAIN_SECONDS = 120.0, 180.0
PERCENTILES = (50, 95, 99)
METHODS: dict[str, dict[str, str]] = {
    "SNOWPIPE": {"snowflake.ingestion.method": "SNOWPIPE", "buffer.flush.time": "10"},
    "SNOWPIPE_STREAMING": {"snowflake.ingestion.method": "SNOWPIPE_STREAMING"},
    "SNOWPIPE_STREAMING, lag 0.1 s": {
        "snowflake.ingestion.method": "SNOWPIPE_STREAMING",
        "snowflake.streaming.max.client.lag": "0.1",
    },
}
"""What differs in the configurations; SNOWPIPE waits as little as it can be told to."""
console = Console(width=110)


@dataclass(frozen=True)
class Marks:
    """Moments in Unix seconds: when so many of the first records had come so far. Both grow."""

    counts: npt.NDArray[np.int64]
    at: Seconds

    def of(self, offsets: npt.NDArray[np.int64]) -> Seconds:
        """The first moment at which each of these records was there."""
        found: Seconds = self.at[np.searchsorted(self.counts, offsets, side="right")]
        return found


class Watch:
    """Counts the rows of a table, in a session and a thread of its own, every `POLL_SECONDS`."""

    def __init__(self, login: SnowflakeLogin, table: str) -> None:
        self._login, self._table = login, table
        self._seen: list[tuple[int, float]] = [(0, time.time())]
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="latency-watch", daemon=True)
        self._thread.start()

    @property
    def rows(self) -> int:
        """Visible rows."""
        return self._seen[-1][0]

    def stop(self) -> Marks:
        """End; returns when the table had how many rows."""
        self._stop.set()
        self._thread.join()
        counts, at = zip(*self._seen, strict=True)
        return Marks(np.array(counts), np.array(at))

    def await_rows(self, rows: int, seconds: float, driver: Driver) -> None:
        """Wait until the table has so many. Raises FirnError when it has not within `seconds`."""
        until = time.monotonic() + seconds
        while self.rows < rows:
            driver.check()
            if time.monotonic() > until:
                raise FirnError(f"{self.rows} of {rows} rows after {seconds:.0f} s.", where=self._table)
            self._stop.wait(POLL_SECONDS)

    def _run(self) -> None:
        with connect(self._login, query_tag="firn latency benchmark") as connection:
            while not self._stop.wait(POLL_SECONDS):
                rows = int(query(connection, f"SELECT COUNT(*) AS N FROM {self._table}")[0]["N"])
                if rows > self.rows:
                    self._seen.append((rows, time.time()))


class Driver:
    """The sink's driver as a child process; its events come on standard error."""

    def __init__(self, config: Path) -> None:
        # Supervised: it ends with this process, whose end closes its standard input.
        command = [sys.executable, "-m", "spark_jobs.sink.job", str(config), "--supervised"]
        pipe = subprocess.PIPE
        self._child = subprocess.Popen(command, stdin=pipe, stdout=subprocess.DEVNULL, stderr=pipe)
        self._staged: list[tuple[int, float]] = [(0, 0.0)]
        self._last: list[str] = []
        assert self._child.stderr is not None
        self._thread = threading.Thread(target=self._read, args=(self._child.stderr,), daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Raise FirnError where the driver has ended, with what it said last."""
        if self._child.poll() is not None:
            raise FirnError("The sink ended: " + "\n".join(self._last), where=f"exit code {self._child.returncode}")

    def stop(self) -> Marks:
        """End in order; returns when how many records were staged: nothing for a method without batches."""
        self._child.terminate()
        self._child.wait(DRAIN_SECONDS)
        self._thread.join()
        counts, at = zip(*self._staged, strict=True)
        return Marks(np.array(counts), np.array(at))

    def close(self) -> None:
        """Kill what still runs after a failure."""
        if self._child.poll() is None:
            self._child.kill()
            self._child.wait()

    def _read(self, lines: IO[bytes]) -> None:
        for line in lines:
            self._last = [*self._last[-5:], line.decode(errors="replace").rstrip()]
            event = _event(line)
            data = event.get("firn_data", {})
            if event.get("firn_event") == "committed" and data.get("files"):
                staged = time.time() - float(data["commit_seconds"])
                self._staged.append((self._staged[-1][0] + int(data["rows"]), staged))


def _event(line: bytes) -> dict[str, Any]:
    """A line of the driver's log; empty for one that is none."""
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


@dataclass(frozen=True)
class Measured:
    """One method at one rate: seconds by phase, the whole way among them. records: how many were measured."""

    method: str
    rate: int
    records: int
    phases: dict[str, dict[str, float]]


def measure(method: str, rate: int, seconds: float, settings: Settings) -> Measured:
    """Run the sink and the producer until `seconds` of steady state are measured; removes what it made."""
    name = f"latency_{uuid.uuid4().hex[:8]}"
    context = resolve(SinkConfig(name, (name,)), settings)
    make_topic(context.kafka, name)
    try:
        with tempfile.TemporaryDirectory() as folder, _table(context.login, name.upper()):
            file = _config(Path(folder), name, METHODS[method])
            with closing(Driver(file)) as driver:
                steady, made, visible, staged = _run(driver, name, rate, seconds, context)
            pushed = _push_times(context.login, name.upper())
    finally:
        drop_topic(context.kafka, name)
    offsets = np.flatnonzero((made >= steady) & (made < steady + seconds))
    return Measured(method, rate, len(offsets), _phases(offsets, made, pushed, staged, visible))


def _run(
    driver: Driver, name: str, rate: int, seconds: float, context: SinkContext
) -> tuple[float, Seconds, Marks, Marks]:
    """Produce until `seconds` of steady state have passed, and drain: its beginning, and all moments."""
    watch = Watch(context.login, name.upper())
    producer = PacedProducer(prepare(context.settings, name, order_values()), rate)
    producer.start()
    watch.await_rows(1, START_SECONDS, driver)
    steady = time.time() + seconds / 2  # Spark's first batches are slow
    while time.time() < steady + seconds:
        driver.check()
        time.sleep(0.1)
    made = producer.stop()
    watch.await_rows(len(made), DRAIN_SECONDS, driver)
    return steady, made, watch.stop(), driver.stop()


def _phases(
    offsets: npt.NDArray[np.int64], made: Seconds, pushed: Seconds, staged: Marks, visible: Marks
) -> dict[str, dict[str, float]]:
    """The percentiles of each phase of these records. made, pushed: by offset, of all records."""
    moments = {"produced": made[offsets], "read": pushed[offsets]}
    if len(staged.counts) > 1:
        moments["staged"] = staged.of(offsets)
    moments["visible"] = visible.of(offsets)
    names = list(moments)
    pairs = [*pairwise(names), ("produced", "visible")]
    return {f"{a} to {b}": _percentiles(moments[b] - moments[a]) for a, b in pairs}


def _percentiles(seconds: Seconds) -> dict[str, float]:
    return {f"p{each}": round(float(np.percentile(seconds, each)), 3) for each in PERCENTILES}


def _config(folder: Path, name: str, parameters: dict[str, str]) -> Path:
    """A sink of one topic into a table of the topic's name."""
    file = folder / f"{name}.json"
    file.write_text(json.dumps({"name": name, "config": {"topics": name, **parameters}}))
    return file


@contextmanager
def _table(login: SnowflakeLogin, table: str) -> Iterator[None]:
    """The table, made before the sink starts so that it can be counted, and dropped."""
    with connect(login) as connection:
        execute(connection, f"CREATE TABLE {table} (RECORD_METADATA VARIANT, RECORD_CONTENT VARIANT)")
    try:
        yield
    finally:
        with connect(login) as connection:
            execute(connection, f"DROP TABLE {table}")


def _push_times(login: SnowflakeLogin, table: str) -> Seconds:
    """When each record was converted, in Unix seconds, by offset. Raises FirnError unless each is there once."""
    field = "RECORD_METADATA:{}::NUMBER"
    select = f"SELECT {field.format('offset')} AS O, {field.format('SnowflakeConnectorPushTime')} AS P FROM {table}"
    with connect(login) as connection:
        rows = sorted((int(row["O"]), int(row["P"])) for row in query(connection, select))
    if [offset for offset, _ in rows] != list(range(len(rows))):
        raise FirnError("Records are missing or doubled: the figures mean nothing.", where=table)
    return np.array([milliseconds / 1000 for _, milliseconds in rows])


def _print(results: Sequence[Measured]) -> None:
    table = Table(title="Seconds, p50 / p95 / p99", title_justify="left")
    for column in ("method", "records/s", "phase", *(f"p{each}" for each in PERCENTILES)):
        table.add_column(column, justify="right" if column.startswith(("p9", "p5", "records")) else "left")
    for each in results:
        for phase, seconds in each.phases.items():
            table.add_row(each.method, f"{each.rate:,}", phase, *(f"{value:.2f}" for value in seconds.values()))
    console.print(table)


def main() -> None:
    """Measure each method at each rate, print and write down."""
    parser = argparse.ArgumentParser(description="Latency of the sink, from produce to visible.")
    parser.add_argument(
        "--rates", type=lambda text: [int(each) for each in text.split(",")], default=[100, 1000, 10000]
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="of steady state that are measured")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    options = parser.parse_args()
    ensure_stack()
    settings = load_settings()
    results = []
    for method in options.methods:
        for rate in options.rates:
            results.append(measure(method, rate, options.seconds, settings))
            whole = results[-1].phases["produced to visible"]
            console.print(f"{method} at {rate:,} records/s: {whole}", highlight=False)
    _print(results)
    figures = [{"method": each.method, "rate": each.rate, "records": each.records, **each.phases} for each in results]
    file = write_results("latency", {"poll_seconds": POLL_SECONDS, "measured": figures})
    console.print(f"Written to {file}", highlight=False)


if __name__ == "__main__":
    try:
        main()
    except FirnError as error:
        sys.exit(f"Error: {error}")
