"""One word for every way in which a sink can be, from signs of life and positions; figures, and which are good."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from firn.connector.config import BufferConfig, SinkConfig
from firn.errors import TransientError
from firn.ledger.control_record import ControlRecord, DesiredState, State
from firn.ledger.owner import Owner, Totals
from firn.operations.health import diagnose
from firn.operations.observation import Observation, PartitionLag
from firn.operations.status import LagLimits, Status
from firn.operations.status_lines import figures, partition_row, short_time, sink_row
from firn.sinks.signs import Rates

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
CONFIG = SinkConfig("orders", ("order-events",), tasks_max=4, buffer=replace(SinkConfig("").buffer, seconds=0))
LIVES = Owner(3, "a-run", 5.0, totals=Totals(records=1000, bytes=50_000, batches=4))
SILENT = replace(LIVES, silent_seconds=600.0)
ENDED = replace(SILENT, run_id="")
FAULT = TransientError("Kafka does not answer: timed out.", where="brokers b:9092", next_step="Check the network.")


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def record(
    state: State,
    *,
    desired: DesiredState = DesiredState.RUNNING,
    since: float = 300,
    silent: float = 10,
    **more: object,
):
    asked = {"desired_by": "anna@desk", "desired_at": ago(since + 1)} if desired is not DesiredState.RUNNING else {}
    words = {"reason": "It broke.", "next_step": "Mend it."} if state in (State.FAILED, State.STALLED) else {}
    found = ControlRecord(
        "orders", desired=desired, state=state, since=ago(since), updated_at=ago(silent), silent_seconds=silent, **words
    )
    return replace(found, **{**asked, **more})


def seen(
    owner: Owner | None = LIVES,
    row: ControlRecord | None = None,
    *,
    lag: int = 0,
    oldest: float | None = None,
    commit: float | None = 5,
    **partition: object,
) -> Observation:
    one = PartitionLag("order-events", 0, "ORDERS", 100, 100 + lag, lag, oldest if lag else None)
    desired = row.desired if row else DesiredState.RUNNING
    last = None if commit is None else ago(commit)
    return Observation(NOW, (replace(one, **partition),), owner, desired, row, last)


def paused(state: State = State.PAUSED) -> ControlRecord:
    return record(state, desired=DesiredState.PAUSED)


@pytest.mark.parametrize(
    ("word", "found"),
    [
        ("Running", seen()),
        ("Running", seen(row=record(State.RUNNING))),
        ("Running", seen(row=record(State.STOPPED))),  # started past the supervisor: it lives all the same
        ("Running", seen(lag=500, oldest=10, commit=60)),  # what waits has only just come
        ("Running", seen(lag=500, oldest=900, commit=10)),  # far behind, and catching up
        ("Running", seen(row=record(State.STALLED, since=300), commit=10)),  # an offset moved since
        ("Running", seen(row=paused(State.RUNNING))),  # asked to pause; works still
        ("Starting", seen(row=record(State.STARTING))),
        ("Starting", seen(SILENT, record(State.STARTING))),
        ("Starting", seen(None, record(State.STARTING), commit=None)),
        ("Stalled", seen(row=record(State.STALLED, since=300), commit=400)),
        ("Stalled", seen(SILENT, record(State.STALLED, since=300), commit=400)),
        ("Stalled", seen(lag=5, oldest=60, commit=60)),
        ("Stalled", seen(lag=5, oldest=None, commit=60)),
        ("Failed", seen(ENDED, record(State.FAILED))),
        ("Failed", seen(SILENT, record(State.FAILED))),
        ("Running", seen(LIVES, record(State.FAILED))),  # somebody else runs it since
        ("Stopped", seen(ENDED, record(State.FAILED, desired_at=ago(10)))),  # answered by a resume since
        ("Paused", seen(ENDED, paused())),
        ("Paused", seen(None, paused(State.STOPPED), commit=None)),
        ("Stopped", seen(ENDED, record(State.STOPPED, desired=DesiredState.STOPPED))),
        ("Stopped", seen(ENDED)),
        ("Stopped", seen(ENDED, record(State.RUNNING))),
        ("Stopped", seen(None, commit=None)),
        ("Unknown", seen(SILENT)),
        ("Unknown", seen(SILENT, record(State.RUNNING, silent=5))),  # a row that says running proves nothing
        ("Unknown", seen(SILENT, record(State.STARTING, silent=900))),
    ],
)
def test_the_state_follows_from_life_and_positions(word: str, found: Observation) -> None:
    assert diagnose(CONFIG, found).state.word == word


def test_what_an_open_transaction_keeps_back_does_not_stall_the_sink_and_is_told() -> None:
    blocked = diagnose(CONFIG, seen(lag=5, oldest=900, commit=900, blocked=5, state="blocked"))
    assert blocked.state is State.RUNNING
    assert "open transaction: order-events-0 from offset 100" in blocked.reason
    assert "find-hanging" in blocked.next_step
    assert diagnose(CONFIG, seen(lag=6, oldest=900, commit=900, blocked=5)).state is State.STALLED


def test_what_waits_for_company_is_not_stalled() -> None:
    patient = replace(CONFIG, buffer=BufferConfig(records=100, seconds=60, bytes=10**6))
    assert diagnose(patient, seen(lag=5, oldest=60, commit=60)).state is State.RUNNING
    assert diagnose(patient, seen(lag=5, oldest=110, commit=110)).state is State.STALLED
    assert diagnose(patient, seen(lag=100, oldest=60, commit=60)).state is State.STALLED


def test_a_failure_says_why_since_when_and_what_to_do() -> None:
    found = diagnose(CONFIG, seen(ENDED, record(State.FAILED, since=120)))
    assert (found.reason, found.next_step, found.since) == ("It broke.", "Mend it.", ago(120))


def test_silence_begins_with_the_last_sign_of_life() -> None:
    found = diagnose(CONFIG, seen(SILENT))
    assert found.since == ago(600)
    assert "No sign of life for 10 minutes" in found.reason
    assert "firn sink run" in found.next_step


def test_a_pause_says_who_asked_for_it_and_how_to_go_on() -> None:
    found = diagnose(CONFIG, seen(ENDED, paused()))
    assert "anna@desk" in found.reason
    assert "firn sink resume" in found.next_step
    working = diagnose(CONFIG, seen(row=paused(State.RUNNING)))
    assert working.reason == "Pause requested by anna@desk; the current batch is finishing."


def test_where_kafka_is_silent_the_ledger_still_tells() -> None:
    blind = replace(seen(), partitions=())
    assert diagnose(CONFIG, blind, FAULT).state is State.UNKNOWN
    assert "Kafka does not answer" in diagnose(CONFIG, blind, FAULT).reason
    stalled = replace(seen(row=record(State.STALLED), commit=400), partitions=())
    assert diagnose(CONFIG, stalled, FAULT).state is State.STALLED
    assert diagnose(CONFIG, replace(seen(ENDED, paused()), partitions=()), FAULT).state is State.PAUSED
    nothing = Status.of(CONFIG, None, FAULT)
    assert (nothing.diagnosis.state, nothing.diagnosis.next_step) == (State.UNKNOWN, "Check the network.")
    assert (nothing.row()["lag"], nothing.row()["tasks"], nothing.needs_attention) == (None, None, True)


@pytest.mark.parametrize(
    ("found", "well"),
    [
        (seen(), True),
        (seen(ENDED, paused()), True),
        (seen(ENDED), True),
        (seen(ENDED, record(State.FAILED)), False),
        (seen(row=record(State.STALLED), commit=400), False),
        (seen(SILENT), False),
        (seen(ahead=True), False),
    ],
)
def test_a_probe_fails_where_somebody_has_to_look(found: Observation, well: bool) -> None:
    assert Status.of(CONFIG, found).needs_attention is not well


def marks(found: Observation, config: SinkConfig = CONFIG) -> dict[str, str]:
    return {each.figure: each.mark for each in figures(Status.of(config, found))}


def test_the_good_values_of_the_course_are_marked() -> None:
    good = marks(seen(row=record(State.RUNNING)))
    assert {good[name] for name in ("state", "tasks", "records", "lag", "error rate", "errors")} == {"good"}
    assert marks(seen(lag=999, oldest=1))["lag"] == "good"
    assert marks(seen(lag=1000, oldest=1))["lag"] == "look"
    bad = replace(LIVES, totals=Totals(records=99, bad_records=1))
    assert marks(seen(bad))["error rate"] == "look"
    assert marks(seen(row=record(State.RUNNING, stats={"errors": 2})))["errors"] == "look"
    assert marks(seen(SILENT))["tasks"] == "look"
    assert marks(seen(lag=5, oldest=400, commit=400))["records"] == "look"
    assert marks(seen(ahead=True))["ledger past Kafka's end"] == "look"


def test_nothing_is_asked_of_a_sink_that_was_paused() -> None:
    found = marks(seen(ENDED, paused(), lag=20, oldest=900, commit=900))
    assert (found["state"], found["tasks"], found["records"]) == ("", "", "")


def test_what_kafka_alone_could_tell_is_no_good_value_while_it_is_away() -> None:
    found = {each.figure: each.mark for each in figures(Status.of(CONFIG, seen(commit=400), FAULT))}
    assert (found["tasks"], found["records"], found["lag"]) == ("", "", "look")


def test_figures_are_totals_rates_and_their_age() -> None:
    stats = {"records_per_second": 12.5, "bytes_per_second": 300.0, "batch_seconds": 1.5, "schema_ids": [4, 7]}
    totals = Totals(records=990, bytes=5000, batches=9, bad_records=10, dead_letters=10)
    running = record(State.RUNNING, silent=30, stats={**stats, "restarts": 1, "host": "box", "pid": 7})
    found = Status.of(CONFIG, seen(replace(LIVES, totals=totals), running, lag=40, oldest=7))
    row = found.row()
    assert (row["records"], row["bytes"], row["dead_letters"], row["error_percent"]) == (990, 5000, 10, 1.0)
    assert (row["records_per_second"], row["batch_seconds"], row["schema_ids"]) == (12.5, 1.5, [4, 7])
    assert (row["lag"], row["lag_worst"], row["lag_seconds"], row["tasks"], row["tasks_max"]) == (40, 40, 7, 1, 4)
    shown = {each.figure: each.value for each in figures(found)}
    assert shown["measured"] == "30 seconds ago by process 7 on box"
    assert shown["tasks"] == "1 (tasks.max 4)"
    assert shown["error rate"] == "1% (10 bad records)"
    assert shown["worst partition"] == "40 in order-events-0"
    assert shown["schema ids seen"] == "4, 7"


def test_a_day_at_these_rates_has_its_estimated_credits() -> None:
    stats = {"records_per_second": 1.0, "bytes_per_second": 300.0}
    patient = replace(CONFIG, buffer=BufferConfig(10_000, 620, 5_000_000))
    found = Status.of(patient, seen(row=record(State.RUNNING, stats=stats)))
    assert found.row()["credits_per_day"] == pytest.approx(2.4)
    assert {each.figure: each.value for each in figures(found)}["credits a day"] == "2.40 (estimate for an X-Small)"
    unmeasured = Status.of(patient, seen(row=record(State.RUNNING)))
    shown = {each.figure: each.value for each in figures(unmeasured)}
    assert shown["credits a day"] == "2.40 or more (estimate for an X-Small)"
    assert Status.of(patient, seen(row=record(State.RUNNING)), FAULT).row()["credits_per_day"] is None


def test_an_idle_sink_is_estimated_to_cost_nothing() -> None:
    assert Status.of(CONFIG, seen(row=record(State.RUNNING), commit=3600)).row()["credits_per_day"] == 0.0


def test_the_drivers_own_rates_are_newer_than_its_supervisors() -> None:
    told = replace(seen(row=record(State.RUNNING, stats={"records_per_second": 99.0})), rates=Rates(7.5, 300.0))
    row = Status.of(CONFIG, told).row()
    assert (row["records_per_second"], row["bytes_per_second"]) == (7.5, 300.0)


def test_an_old_rate_is_not_shown_as_one_of_now() -> None:
    old = record(State.RUNNING, silent=600, stats={"records_per_second": 99.0})
    assert Status.of(CONFIG, seen(row=old, commit=600)).rate("records_per_second") == 0.0
    assert Status.of(CONFIG, seen(row=old, commit=5)).rate("records_per_second") is None


def test_a_line_of_many_names_what_to_look_at() -> None:
    line = sink_row(Status.of(CONFIG, seen(lag=5000, oldest=900, commit=900)))
    assert (line["state"], line["lag"], line["oldest"]) == ("Stalled", 5000, "15 minutes")
    assert line["mark"] == "look: lag, records, state"
    assert sink_row(Status.of(CONFIG, seen()))["mark"] == "good"


@pytest.mark.parametrize(
    ("partition", "mark"),
    [
        ({}, "good"),
        ({"lag": 999}, "good"),
        ({"lag": 1000}, "look"),
        ({"ahead": True, "state": "ahead"}, "look"),
        ({"state": "gone", "end_offset": None}, "look"),
        ({"state": "new"}, "good"),
    ],
)
def test_a_partition_has_its_mark(partition: dict[str, object], mark: str) -> None:
    assert partition_row(seen(**partition).partitions[0], LagLimits())["mark"] == mark


def test_limits_of_lag_are_those_that_the_supervisor_was_given() -> None:
    stats = {"lag_limit_records": 5000, "lag_limit_seconds": 600.0}
    status = Status.of(CONFIG, seen(row=record(State.RUNNING, stats=stats), lag=4999, oldest=700))
    shown = {each.figure: (each.good, each.mark) for each in figures(status)}
    assert (shown["lag"], shown["oldest record"]) == (("< 5000", "good"), ("< 10 minutes", "look"))
    assert partition_row(status.partitions[0], status.limits)["mark"] == "look"
    unconfigured = Status.of(
        CONFIG, seen(row=record(State.RUNNING, stats=dict.fromkeys(stats, 0)), lag=4999, oldest=700)
    )
    shown = {each.figure: (each.good, each.mark) for each in figures(unconfigured)}
    assert (shown["lag"], shown["oldest record"]) == (("< 1000", "look"), ("", ""))


def test_a_moment_in_a_cell_is_a_time_today_and_a_day_before() -> None:
    now = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)
    moments = (now.replace(hour=1), now.replace(month=1), now.replace(year=2025), None)
    assert [short_time(each, now) for each in moments] == ["01:00:00", "Jan 04", "2025-03-04", ""]
