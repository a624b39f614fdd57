"""What the Prefect UI shows of a job: one Markdown artifact a flow run, with charts, updated in place.

Charts are images inside the text (`data:` addresses), which both of Prefect's UIs show; of inline SVG and Mermaid at
least one of them makes nothing. Figures are those of the status commands. Not for when it is published
(`publishing`).
"""

from __future__ import annotations

import hashlib
import re
from base64 import b64encode
from collections.abc import Iterator, Sequence
from datetime import datetime
from http import HTTPStatus
from typing import Any
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import ArtifactCreate
from prefect.context import FlowRunContext
from prefect.exceptions import PrefectHTTPStatusError
from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, temporary_settings

from firn.ledger.owner import spoken
from firn.operations.observation import PartitionLag
from firn.operations.status import LagLimits, Status
from firn.operations.status_lines import LOOK, PARTITION_COLUMNS, figures, partition_row
from firn.supervisor.snapshot import Sample, Snapshot
from flows.prefect_ui.charts import Chart, Point

ANSWER_SECONDS = 5.0
MAX_PARTITIONS = 50
_CHARTS = (
    (Chart("Oldest record that waits", "seconds", "#6d28d9"), lambda sample: _waited(sample)),
    (Chart("Throughput", "records per second", "#0f766e"), lambda sample: sample.records_per_second),
    (Chart("Throughput", "bytes per second", "#1d4ed8"), lambda sample: sample.bytes_per_second),
)
_WITHOUT = ("measured",)


class JobArtifact:
    """The artifact of one flow run, the one in which it is made; `publish` may be called from another thread."""

    def __init__(self) -> None:
        context = FlowRunContext.get()
        self._flow_run = context.flow_run.id if context and context.flow_run else None
        self._id: UUID | None = None

    def publish(self, snapshot: Snapshot) -> None:
        """Show the snapshot: make the artifact, or update it in place. Takes a few seconds at most.

        Raises what Prefect's client raises where the server is away or refuses; the next call tries again.
        """
        text = status_markdown(snapshot)
        with (
            temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 0}),
            get_client(sync_client=True, httpx_settings={"timeout": ANSWER_SECONDS}) as client,
        ):
            if self._id is None or not _updated(client, self._id, text):
                self._id = self._made(client, snapshot, text)

    def _made(self, client: SyncPrefectClient, of: Snapshot, text: str) -> UUID:
        artifact = ArtifactCreate(
            key=artifact_key(of.name, of.kind),
            type="markdown",
            description=f"State of {of.kind} {of.name}. Updated in place while its flow runs.",
            data=text,
            flow_run_id=self._flow_run,
        )
        return client.create_artifact(artifact).id


def _updated(client: SyncPrefectClient, artifact: UUID, text: str) -> bool:
    """Whether the artifact is there still, with the new text.

    By the route itself: the client's `update_artifact` also sends the whole text as an event, each time.
    """
    try:
        client.request("PATCH", "/artifacts/{id}", path_params={"id": artifact}, json={"data": text})
    except PrefectHTTPStatusError as error:
        if error.response.status_code == HTTPStatus.NOT_FOUND:
            return False
        raise
    return True


def artifact_key(name: str, kind: str = "sink") -> str:
    """The artifact's key: the kind and the name in what Prefect allows (a-z, 0-9, dashes), different for each name."""
    plain = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    if plain == name:
        return f"{kind}-{plain}"
    mark = hashlib.sha256(name.encode()).hexdigest()[:8]
    return "-".join(filter(None, (kind, plain, mark)))


def status_markdown(snapshot: Snapshot) -> str:
    """The state of a job as Markdown: state, reason and next step first; then charts, figures, partitions."""
    status = snapshot.status()
    sections = [
        f"# {_plain(snapshot.name)}: {status.diagnosis.state.word}",
        *_diagnosis(snapshot),
        _in_short(snapshot),
        *_charts(snapshot.history, snapshot.at, status.limits),
        "## Figures",
        _figures(status),
        "## Partitions",
        *_partitions(snapshot.partitions, status.limits),
    ]
    return "\n\n".join(sections) + "\n"


def _diagnosis(snapshot: Snapshot) -> Iterator[str]:
    if snapshot.reason:
        yield f"**Why:** {_lines(snapshot.reason)}"
    if snapshot.next_step:
        yield f"**Next step:** {_lines(snapshot.next_step)}"
    lasted = spoken((snapshot.at - snapshot.since).total_seconds())
    watched = " Another run owns it; this run watches it." if snapshot.attached else ""
    yield (
        f"{snapshot.state.word} since {snapshot.since:%Y-%m-%d %H:%M:%S} UTC ({lasted}), epoch {snapshot.epoch}."
        f"{watched} Observed at **{snapshot.at:%Y-%m-%d %H:%M:%S} UTC**. If this page looks old, run "
        f"`firn {snapshot.kind} status`."
    )


def _in_short(snapshot: Snapshot) -> str:
    oldest = f", the oldest for {spoken(snapshot.lag_seconds)}" if snapshot.lag_seconds is not None else ""
    waiting = "record waits" if snapshot.lag == 1 else "records wait"
    parts = [f"{snapshot.lag:,} {waiting}{oldest}", f"{snapshot.records_per_second:,.1f} records/s"]
    if snapshot.last_commit:
        parts.append(f"last commit {spoken((snapshot.at - snapshot.last_commit).total_seconds())} ago")
    return f"**{' · '.join(parts)}**"


def _charts(history: Sequence[Sample], until: datetime, limits: LagLimits) -> Iterator[str]:
    lag = Chart("Lag", "records that wait", "#c2410c", good=limits.records)
    for chart, figure in ((lag, lambda sample: float(sample.lag)), *_CHARTS):
        points: list[Point] = [(sample.at, figure(sample)) for sample in history]
        if any(value is not None for _, value in points):
            picture = b64encode(chart.svg(points, until).encode()).decode()
            yield f"![{chart.title}, {chart.unit}](data:image/svg+xml;base64,{picture})"


def _waited(sample: Sample) -> float | None:
    return 0.0 if sample.lag == 0 else sample.lag_seconds


def _figures(status: Status) -> str:
    lines = [each for each in figures(status) if each.figure not in _WITHOUT]
    rows = [(each.figure, each.value, each.good, each.mark) for each in lines]
    return _table(("figure", "value", "good", ""), rows)


def _partitions(partitions: Sequence[PartitionLag], limits: LagLimits) -> Iterator[str]:
    if not partitions:
        yield "No partition has been observed yet."
        return
    shown = partitions
    if len(partitions) > MAX_PARTITIONS:
        shown = sorted(partitions, key=lambda each: (not each.ahead, -(each.lag or 0)))[:MAX_PARTITIONS]
        yield f"The {MAX_PARTITIONS} partitions with the most lag, of {len(partitions):,}."
    rows = [partition_row(each, limits) for each in shown]
    names = (*PARTITION_COLUMNS[:-1], "")
    yield _table(names, [[*(row[name] for name in names[:-1]), row["mark"]] for row in rows])


def _table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(_cell(value) for value in line)} |" for line in lines)


def _cell(value: object) -> str:
    if value is None:
        return ""
    if value == LOOK:
        return f"**{LOOK}**"
    if isinstance(value, int):
        return f"{value:,}"
    return _plain(str(value)).replace("|", "\\|")


def _lines(text: str) -> str:
    """Text from outside with its line breaks: an error's list of records, a command of its own."""
    return "\\\n".join(_plain(line) for line in text.splitlines() if line.strip())


def _plain(text: str) -> str:
    """Text from outside in Markdown: one line, no tags, no emphasis; `code` stays."""
    parts = " ".join(text.split()).split("`")
    if len(parts) % 2 == 0:  # an odd backtick opens nothing
        parts = ["\\`".join(parts)]
    parts[::2] = [
        re.sub(r"([*_\[\]#~])", r"\\\1", part.replace("&", "&amp;").replace("<", "&lt;")) for part in parts[::2]
    ]
    return "`".join(parts)
