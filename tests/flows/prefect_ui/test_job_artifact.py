"""A sink's artifact: what a person reads in it, what its charts draw, and that Prefect keeps one of it."""

from __future__ import annotations

import re
import socket
import time
import uuid
import xml.etree.ElementTree as ET
from base64 import b64decode
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import httpx
import pytest
from prefect import flow
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterKey
from prefect.settings import PREFECT_API_URL, temporary_settings

from firn.ledger.control_record import State
from firn.ledger.owner import Totals
from firn.operations.observation import PartitionLag
from firn.supervisor.snapshot import Sample, Snapshot
from flows.prefect_ui.charts import MAX_POINTS, Chart, Point, short
from flows.prefect_ui.job_artifact import MAX_PARTITIONS, JobArtifact, artifact_key, status_markdown
from tests.conftest import RunningStack

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
SVG = "{http://www.w3.org/2000/svg}"


def picture(points: list[Point], until: datetime = AT) -> str:
    return CHART.svg(points, until)


CHART = Chart("Lag", "records", "#c2410c", good=1000)


def partition(number: int, lag: int = 0, **more: object) -> PartitionLag:
    return PartitionLag("orders", number, "ORDERS", 100, 100 + lag, lag, **more)  # type: ignore[arg-type]


def snapshot(**changes: object) -> Snapshot:
    history = tuple(Sample(AT - timedelta(seconds=10 * (9 - i)), 40 * i, 2.0 * i, 90.0, 9000.0) for i in range(10))
    calm = Snapshot(
        name="orders",
        state=State.RUNNING,
        since=AT - timedelta(minutes=12),
        at=AT,
        epoch=3,
        tasks=2,
        totals=Totals(records=123_456),
        records_per_second=90.0,
        bytes_per_second=9000.0,
        ship_seconds=1.25,
        commit_seconds=0.5,
        last_commit=AT - timedelta(seconds=4),
        lag=360,
        lag_seconds=18.0,
        partitions=(partition(0, 360, lag_seconds=18.0), partition(1)),
        schema_ids=(7, 9),
        history=history,
    )
    return replace(calm, **changes)  # type: ignore[arg-type]


def table(text: str, heading: str) -> dict[str, list[str]]:
    """A table of the text, by the first cell of its rows."""
    part = text.split(f"## {heading}")[1].split("##")[0]
    rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in part.splitlines() if line.startswith("|")]
    return {row[0].strip(): [cell.strip() for cell in row[1:]] for row in rows[2:]}


def drawn(svg: str) -> ET.Element:
    return ET.fromstring(svg)


def points(*values: float | None, step: float = 10.0) -> list[Point]:
    return [(AT + timedelta(seconds=step * index), value) for index, value in enumerate(values)]


def test_the_word_and_what_to_do_come_first() -> None:
    text = status_markdown(
        snapshot(state=State.STALLED, reason="No offset moved.", next_step="Look at `firn sink logs`.")
    )
    lines = [line for line in text.splitlines() if line]
    assert lines[:3] == [
        "# orders: Stalled",
        "**Why:** No offset moved.",
        "**Next step:** Look at `firn sink logs`.",
    ]
    assert "since 2026-01-02 02:52:05 UTC (12 minutes)" in lines[3]
    assert "2026-01-02 03:04:05 UTC" in lines[3]


def test_figures_are_those_of_the_status_with_what_is_good() -> None:
    figures = table(status_markdown(snapshot()), "Figures")
    assert figures["state"] == ["Running", "Running", "good"]
    assert figures["tasks"] == ["2", "1 or more", "good"]
    assert figures["records"] == ["123,456", "increasing", "good"]
    assert figures["lag"] == ["360 records", "&lt; 1000", "good"]
    assert figures["error rate"] == ["0%", "0%", "good"]
    assert figures["batch seconds"][0] == "1.8"
    assert figures["last commit"][0].endswith("4 seconds ago")
    assert figures["schema ids seen"][0] == "7, 9"


def test_figures_that_are_not_good_are_marked() -> None:
    ill = snapshot(
        state=State.STALLED,
        totals=Totals(bad_records=4),
        errors=2,
        restarts=2,
        last_error="It was killed.",
        lag=5000,
        partitions=(partition(0, 5000), partition(1, 0, ahead=True, state="ahead")),
        last_commit=AT - timedelta(hours=1),
        records_per_second=0.0,
    )
    figures = table(status_markdown(ill), "Figures")
    for name in ("state", "records", "lag", "error rate", "errors", "ledger past Kafka's end"):
        assert figures[name][-1] == "**look**", name
    assert figures["errors"][0] == "2 (2 restarts); the last: It was killed."


@pytest.mark.parametrize("state", list(State))
def test_every_state_and_an_empty_beginning_can_be_shown(state: State) -> None:
    text = status_markdown(Snapshot("orders", state, AT, AT))
    assert text.startswith(f"# orders: {state.value.capitalize()}\n")
    assert "data:image" not in text
    assert "No partition has been observed yet." in text


def test_partitions_show_lag_in_records_and_time() -> None:
    text = status_markdown(snapshot())
    part = text.split("## Partitions")[1]
    assert "| orders | 0 | ORDERS | 100 | 460 | 360 | 18 seconds | ok | good |" in part
    assert "| orders | 1 | ORDERS | 100 | 100 | 0 |  | ok | good |" in part


def test_of_many_partitions_those_behind_are_shown() -> None:
    many = tuple(partition(number, number) for number in range(3000))
    text = status_markdown(snapshot(partitions=(*many, partition(9999, ahead=True, state="ahead"))))
    rows = [line for line in text.split("## Partitions")[1].splitlines() if line.startswith("| orders")]
    assert len(rows) == MAX_PARTITIONS
    assert rows[0].split("|")[2].strip() == "9,999"
    assert rows[1].split("|")[2].strip() == "2,999"
    assert len(text) < 40_000


def test_text_from_outside_stays_text() -> None:
    words = "1 < 2 & a|b *c* [x](http://y) # no heading `firn sink run <config>`"
    text = status_markdown(snapshot(reason=words, errors=1, last_error=words))
    assert r"1 &lt; 2 &amp; a|b \*c\* \[x\](http://y) \# no heading `firn sink run <config>`" in text
    assert table(text, "Figures")["errors"][0].endswith("`firn sink run <config>`")
    assert "\\`<b>" not in status_markdown(snapshot(reason="odd ` <b>"))


def test_lines_of_an_error_stay_lines() -> None:
    text = status_markdown(snapshot(reason="It stopped at:\n  orders-0 offset 7: bad\n# orders-1 offset 9: bad"))
    assert "**Why:** It stopped at:\\\norders-0 offset 7: bad\\\n\\# orders-1 offset 9: bad\n\n" in text


def test_charts_show_lag_and_throughput_over_time() -> None:
    text = status_markdown(snapshot())
    pictures = re.findall(r"!\[(.*?)\]\(data:image/svg\+xml;base64,(.*?)\)", text)
    assert [name for name, _ in pictures] == [
        "Lag, records that wait",
        "Oldest record that waits, seconds",
        "Throughput, records per second",
        "Throughput, bytes per second",
    ]
    words = [
        ["".join(each.itertext()) for each in drawn(b64decode(svg).decode()).iter(f"{SVG}text")] for _, svg in pictures
    ]
    assert [each[1] for each in words] == ["last 360", "last 18", "last 90", "last 9k"]
    assert all("03:04:05 UTC" in each for each in words)


def test_a_long_history_makes_no_long_text() -> None:
    history = tuple(
        Sample(AT + timedelta(minutes=i), i * 7919 % 99_991, i * 1.7, i * 3.3, i * 999.0) for i in range(720)
    )
    assert len(status_markdown(snapshot(history=history))) < 40_000


def test_lines_stay_within_the_axes() -> None:
    svg = drawn(picture(points(0, 17, 999_999, 3.5, 0)))
    (line,) = svg.iter(f"{SVG}polyline")
    places = [tuple(map(float, pair.split(","))) for pair in line.attrib["points"].split()]
    assert all(58 <= x <= 622 and 34 <= y <= 154 for x, y in places)
    assert min(y for _, y in places) == pytest.approx(34, abs=1)
    assert [x for x, _ in places] == sorted(x for x, _ in places)


def test_what_is_good_is_drawn_where_the_figure_comes_near() -> None:
    assert "good: below 1k" in picture(points(0, 900))
    assert "good" not in picture(points(0, 90))


def test_what_is_not_known_leaves_a_gap() -> None:
    assert len(list(drawn(picture(points(1, 2, None, 4, 5))).iter(f"{SVG}polyline"))) == 2
    silence = [*points(1, 2, 3), *[(at + timedelta(hours=1), value) for at, value in points(4, 5)]]
    assert len(list(drawn(picture(silence)).iter(f"{SVG}polyline"))) == 2
    assert len(list(drawn(picture(points(7))).iter(f"{SVG}circle"))) == 1


def test_a_time_in_which_nobody_could_look_is_empty_at_the_end() -> None:
    svg = picture(points(1, 2, 3), AT + timedelta(seconds=40))
    (line,) = drawn(svg).iter(f"{SVG}polyline")
    assert line.attrib["points"].split()[-1].split(",")[0] == "340"
    assert "03:04:45 UTC" in svg


def test_no_peak_is_lost_by_thinning() -> None:
    values = [0.0] * 719
    values[333] = 5000.0
    svg = picture(points(*values))
    (line,) = drawn(svg).iter(f"{SVG}polyline")
    places = line.attrib["points"].split()
    assert len(places) <= MAX_POINTS
    assert ">5k<" in svg
    assert min(float(place.split(",")[1]) for place in places) == 34.0


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0"), (12.34, "12.3"), (1000, "1k"), (2_500_000, "2.5M"), (3e9, "3G")]
)
def test_numbers_of_an_axis_are_short(number: float, text: str) -> None:
    assert short(number) == text


def test_keys_hold_what_prefect_allows_and_tell_names_apart() -> None:
    assert artifact_key("order-events") == "sink-order-events"
    names = ["orders", "Orders", "or_ders", "or.ders", "or-ders", "ørders", "日本", "-x-", "x"]
    keys = [artifact_key(name) for name in names]
    assert len(set(keys)) == len(names)
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", key) for key in keys)


@pytest.mark.stack
def test_a_run_has_one_artifact_that_is_updated_in_place(stack: RunningStack) -> None:
    name = f"orders-{uuid.uuid4().hex[:8]}"

    @flow
    def supervise() -> None:
        artifact = JobArtifact()
        for lag in (1, 2, 3):
            artifact.publish(snapshot(name=name, lag=lag))

    with temporary_settings({PREFECT_API_URL: stack.settings.prefect_api_url}), get_client(sync_client=True) as client:
        supervise(return_state=True)
        wanted = ArtifactFilter(key=ArtifactFilterKey(any_=[artifact_key(name)]))
        (kept,) = client.read_artifacts(artifact_filter=wanted)
        assert kept.flow_run_id is not None
        assert "**3 records wait" in str(kept.data)


@pytest.mark.stack
def test_an_artifact_that_somebody_removed_is_made_again(stack: RunningStack) -> None:
    name = f"orders-{uuid.uuid4().hex[:8]}"
    artifact = JobArtifact()
    with temporary_settings({PREFECT_API_URL: stack.settings.prefect_api_url}), get_client(sync_client=True) as client:
        artifact.publish(snapshot(name=name))
        wanted = ArtifactFilter(key=ArtifactFilterKey(any_=[artifact_key(name)]))
        (made,) = client.read_artifacts(artifact_filter=wanted)
        client.delete_artifact(made.id)
        artifact.publish(snapshot(name=name))
        (again,) = client.read_artifacts(artifact_filter=wanted)
    assert again.id != made.id


def test_a_server_that_hangs_or_is_away_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flows.prefect_ui.job_artifact.ANSWER_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/api"
        begun = time.monotonic()
        with temporary_settings({PREFECT_API_URL: url}), pytest.raises(httpx.TimeoutException):
            JobArtifact().publish(snapshot())
    with temporary_settings({PREFECT_API_URL: url}), pytest.raises(httpx.ConnectError):
        JobArtifact().publish(snapshot())
    assert time.monotonic() - begun < 8
