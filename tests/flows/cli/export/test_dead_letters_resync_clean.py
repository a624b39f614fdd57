"""`firn export dead-letters`, `resync` and `clean`: what was left out, published again, and removed."""

from __future__ import annotations

import json

import pytest

from firn.connector.export.config import ExportErrorsConfig
from firn.exports.markers import find_markers
from firn.operations.exports import clean, liveness, resync
from tests.flows.cli.export.conftest import Firn, rows_of
from tests.spark_jobs.export.conftest import World

pytestmark = pytest.mark.stack


def test_letters_are_listed_and_shown_and_their_rows_come_with_a_resync(world: World, firn: Firn) -> None:
    refused = firn("dead-letters list", check=False)
    assert (refused.returncode, "publishes no dead letters" in refused.stderr) == (3, True)
    errors = ExportErrorsConfig("all", dead_letter_topic=f"{world.name}-letters", dead_letter_replication=1)
    world.source, world.more = {"types": (("AMOUNT", "int"),)}, {"errors": errors}
    world.sql("INSERT INTO ORDERS VALUES (1, 'a', 1), (2, 'b', 2.5)")
    world.run()
    (row,) = rows_of(firn("dead-letters list", "--json"))
    (batch,) = world.history()
    assert (row["source"], row["batch"], row["action"], row["topic"]) == (
        "orders",
        batch["BATCH"],
        "INSERT",
        world.topic,
    )
    assert "AMOUNT" in row["reason"]
    shown = json.loads(firn("dead-letters show", str(row["partition"]), str(row["offset"]), "--json").stdout)
    assert json.loads(shown["value"]["text"]) == {"ID": "2", "STATUS": "b", "AMOUNT": "2.50"}
    absent = firn("dead-letters show", "0", "999", check=False)
    assert f"no dead letter of export {world.name}" in absent.stderr

    world.source = {}
    assert "The next run publishes them" in firn("resync", "--yes").stderr
    world.run()
    assert sorted(message.key() or b"" for message in world.messages()) == [b"1", b"1", b"2"]


def test_a_resync_shows_asks_and_refuses_an_export_that_never_ran_or_runs(
    world: World, firn: Firn, monkeypatch: pytest.MonkeyPatch
) -> None:
    never = firn("resync", "--yes", check=False)
    assert (never.returncode, "never ran" in never.stderr) == (3, True)
    world.sql("INSERT INTO ORDERS VALUES (1, 'a', 1)")
    world.run()
    (row,) = rows_of(firn("resync", "--dry-run", "--json"))
    assert (row["source"], row["how"]) == ("orders", resync._HOW[world.config.sources[0].kind])
    unknown = firn("resync", "--source", "other", check=False)
    assert "It has orders" in unknown.stderr
    assert firn("resync", check=False).returncode == 3, "nobody can be asked"
    assert "Nothing was changed" in firn("resync", typed="n\n").stderr

    def lives(*_arguments: object) -> None:
        raise liveness.ExportRunsError("Export runs.")

    with monkeypatch.context() as patched:
        patched.setattr(resync, "check_over", lives)
        assert firn("resync", "--yes", check=False).returncode == 3
    world.run()
    assert len(world.messages()) == 1
    firn("resync", "--source", "orders", typed="y\n")
    world.sql("DELETE FROM ORDERS")
    world.run()
    assert [message.value() is None for message in world.messages()] == [False, True], "what is gone is told of"


def test_clean_shows_all_then_removes_what_the_export_made_and_nothing_else(
    world: World, firn: Firn, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.sql("INSERT INTO ORDERS VALUES (1, 'a', 1)")
    world.run()
    shown = rows_of(firn("clean", "--dry-run", "--json"))
    assert {row["what"] for row in shown if row["action"] == "remove"} >= {
        "table",
        "marker",
        "consumer group",
        "ledger",
    }
    assert {row["what"] for row in shown if row["action"] == "leave"} == {"rows of the history"}
    assert firn("clean", check=False).returncode == 3, "nobody can be asked"
    assert "Nothing was changed" in firn("clean", typed="another\n").stderr

    def lives(*_arguments: object) -> None:
        raise liveness.ExportRunsError("Export runs.")

    with monkeypatch.context() as patched:
        patched.setattr(clean, "check_over", lives)
        assert firn("clean", "--yes", check=False).returncode == 3
    assert rows_of(firn("clean", "--dry-run", "--json")) == shown

    assert "Its name is free" in firn("clean", typed=f"{world.name}\n").stderr
    left = firn("clean", "--yes", "--json")
    assert {row["action"] for row in rows_of(left)} == {"leave"}
    assert "left nothing to remove" in left.stderr
    tables = [row["name"] for row in world.rows("SHOW TABLES")]
    assert not [name for name in tables if "OUTBOX" in name]
    assert len(world.rows("SHOW STREAMS")) == 1, "somebody made it"
    assert len(world.messages()) == len(world.history()) == 1

    world.sql("INSERT INTO ORDERS VALUES (2, 'b', 2)")
    world.run()
    assert len(world.messages()) == 2, "an export of the name begins anew"


def test_a_clean_that_was_cut_off_is_given_again_and_no_run_publishes_in_between(
    world: World, firn: Firn, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.sql("INSERT INTO ORDERS VALUES (1, 'a', 1)")
    world.run()

    def cut(*_arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(clean, "remove_made", cut)
        firn("clean", "--yes", check=False)
    standing = clean.ExportLedger(world.schema, world.name).standing(world.connection)
    assert not find_markers(world.context.kafka, world.config.marker_topic, standing.id)
    world.sql("INSERT INTO ORDERS VALUES (2, 'b', 2)")
    with pytest.raises(Exception, match="marker of source orders is gone"):
        world.run()
    with monkeypatch.context() as patched:
        patched.setattr(clean, "check_over", lambda *_arguments: None)  # it gave a sign of life just now
        assert "Its name is free" in firn("clean", "--yes").stderr
    assert len(world.messages()) == 1
