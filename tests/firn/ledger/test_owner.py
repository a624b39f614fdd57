"""The owner row as a value: what its document says, and which targets two sinks may not share."""

from __future__ import annotations

import pytest

from firn.ledger.owner import Owner, SharedTargetError, Totals, check_targets, spoken


@pytest.mark.parametrize(
    "owner",
    [
        Owner(3, "run", 1.5, {"a": "A", 'b"': "t\u00e4ble"}, {"files": ["s/A/a/0/0-9-3-0-00.parquet"]}),
        Owner(1, "", 0.0, {}, {}, claimed=False, shared=True),
        Owner(7, "run", 0.0, {"a": "A"}, method="SNOWPIPE_STREAMING", generation=4, tokens_ahead=True),
        Owner(7, "", 0.0, letters=True, cleaning=True),
    ],
)
def test_a_document_is_read_as_it_was_written(owner: Owner) -> None:
    assert Owner.of(owner.epoch, owner.run_id, owner.silent_seconds, owner.document) == owner


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "3-17",
        "null",
        "[]",
        "{}",
        '{"targets": []}',
        '{"targets": {}, "method_state": 5}',
        '{"targets": 1, "generation": "x", "totals": 7}',
    ],
)
def test_what_is_of_another_shape_in_a_document_counts_as_absent(text: str | None) -> None:
    assert Owner.of(3, "run", 1.0, text) == Owner(3, "run", 1.0)


def test_a_part_of_another_shape_hides_no_other_part() -> None:
    """Else a sink whose tokens are ahead would go on at its positions, and double its rows."""
    read = Owner.of(3, "run", 1.0, '{"targets": 1, "generation": 4, "tokens_ahead": true, "cleaning": true}')
    assert (read.generation, read.tokens_ahead, read.cleaning, read.targets) == (4, True, True, {})


def test_every_shared_target_is_named_at_once() -> None:
    others = {"x": Owner(1, "run", 30, {"a": "A", "c": "C"}), "y": Owner(1, "", 90000 * 3, {"b": "B"})}
    with pytest.raises(SharedTargetError) as raised:
        check_targets("s", None, {"a": "a", "b": "b", "d": "C"}, others)
    lines = raised.value.what.splitlines()[1:]
    assert lines == [
        "  topic a into table A: sink x, last sign of life 30 seconds ago (runs or was killed)",
        "  topic b into table B: sink y, last sign of life 3 days ago (ended in order)",
    ]


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (-2, "0 seconds"),
        (0.4, "0 seconds"),
        (119, "119 seconds"),
        (120, "2 minutes"),
        (7200, "2 hours"),
        (2e5, "2 days"),
    ],
)
def test_a_duration_is_said_in_one_unit(seconds: float, said: str) -> None:
    assert spoken(seconds) == said


def test_totals_add_up_and_survive_a_document() -> None:
    totals = Totals(5, 900, 1, 2, 1) + Totals(1, 100, 1)
    assert totals == Totals(6, 1000, 2, 2, 1)
    document = Owner(1, "r", 0.0, {"t": "T"}, totals=totals).document
    assert Owner.of(1, "r", 0.0, document).totals == totals
    assert Owner.of(1, "r", 0.0, '{"targets": {}, "totals": 7}').totals == Totals()
