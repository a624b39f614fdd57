"""What every ingestion method promises. A method runs these tests by its line in METHODS."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from firn.channels.faults import ChannelInvalidError
from firn.connector.config import Method
from firn.errors import ClaimAgainError, ConfigError, FencedError
from firn.settings import Settings
from firn.snowflake.grants import held_privileges
from spark_jobs.sink.methods import registry
from spark_jobs.sink.methods.base import IngestionMethod
from spark_jobs.sink.values.table_loaders import PipeLoader, VariantLoader
from tests.spark_jobs.sink.methods.contract import P0, P1, TABLE, Bench, rows_of, take
from tests.support.faults_checks import own_schema

METHODS: dict[str, Callable[[], IngestionMethod]] = {
    Method.SNOWPIPE: lambda: registry.of(Method.SNOWPIPE),
    Method.SNOWPIPE_STREAMING: lambda: registry.of(Method.SNOWPIPE_STREAMING),
}
pytestmark = pytest.mark.stack


@pytest.fixture(params=METHODS.values(), ids=METHODS.keys())
def bench(request: pytest.FixtureRequest, settings: Settings, tmp_path: Path) -> Iterator[Bench]:
    """A sink of each method, in a schema where nothing is yet."""
    made = Bench.of(request.param(), own_schema(settings), tmp_path)
    yield made
    made.close()


def test_a_batch_brings_each_row_once_and_the_ledger_follows(bench: Bench) -> None:
    epoch = bench.claim()
    epoch.write(p0=10, p1=3).commit()
    epoch.write(p0=12).commit()
    assert bench.rows() == rows_of(p0=12, p1=3)
    assert epoch.claim.ledger.committed == {P0: 12, P1: 3}
    epoch.driver.finish()
    owner, positions = bench.ledger()
    assert positions == {P0: 12, P1: 3}
    assert owner is not None
    assert (owner.totals.records, owner.totals.batches) == (15, 2)


def test_receipts_cover_each_row_once_in_order_and_only_since_the_last_flush(bench: Bench) -> None:
    writer = bench.claim().writer(P0)
    take(writer, P0, range(0, 4))
    take(writer, P0, range(4, 6))
    first = writer.flush()
    assert [receipt.where for receipt in first] == [P0] * len(first)
    assert (first[0].first, first[-1].last, sum(receipt.rows for receipt in first)) == (0, 5, 6)
    assert all(receipt.table == TABLE and receipt.schema_ids == [7] for receipt in first)
    assert sum(receipt.text_bytes for receipt in first) == writer.text_bytes > 0
    take(writer, P0, [9])
    (second,) = writer.flush()
    assert (second.first, second.last, second.rows) == (9, 9, 1)
    assert writer.flush() == []


def test_what_was_never_flushed_is_nowhere_or_counts_all_the_same(bench: Bench) -> None:
    """A method may make rows durable on its own; the next epoch goes on behind them."""
    take(bench.claim().writer(P0), P0, range(5))
    position = bench.claim().position(P0)
    assert position in (0, 5)
    assert bench.rows() == rows_of(p0=position)


def test_a_batch_that_is_given_up_comes_once_all_the_same(bench: Bench) -> None:
    bench.claim().write(p0=10)
    again = bench.claim()
    again.write(p0=10, p1=2).commit()
    again.driver.finish()
    assert bench.rows() == rows_of(p0=10, p1=2)
    assert bench.ledger()[1] == {P0: 10, P1: 2}


def test_a_task_that_is_given_up_may_write_late(bench: Bench) -> None:
    late = bench.claim().writer(P0)
    take(late, P0, range(10))
    epoch = bench.claim()
    epoch.write(p0=10).commit()
    with suppress(FencedError, ChannelInvalidError):
        late.flush()
    epoch.write(p0=11).commit()
    assert bench.rows() == rows_of(p0=11)


def test_an_older_run_commits_nothing(bench: Bench) -> None:
    older = bench.claim()
    batch = older.write(p0=5)
    newer = bench.claim()
    with pytest.raises((FencedError, ClaimAgainError)):
        batch.commit()
    newer.write(p0=5, p1=1).commit()
    newer.driver.finish()
    assert bench.rows() == rows_of(p0=5, p1=1)


def test_offsets_without_rows_move_the_ledger(bench: Bench) -> None:
    epoch = bench.claim()
    batch = epoch.write(p0=4)
    batch.read = [move._replace(end=7) for move in batch.read]  # markers and tombstones behind the last row
    batch.commit()
    empty = epoch.write(p1=0)
    empty.read = [move._replace(end=3) for move in empty.read]
    empty.commit()
    epoch.driver.finish()
    assert bench.ledger()[1] == {P0: 7, P1: 3}
    assert bench.claim().claim.ledger.committed == {P0: 7, P1: 3}


def test_a_new_run_goes_on_where_the_last_one_ended(bench: Bench) -> None:
    bench.claim().write(p0=6).commit()  # and is killed: no finish
    epoch = bench.claim()
    assert epoch.position(P0) == 6
    epoch.write(p0=8).commit()
    assert bench.rows() == rows_of(p0=8)


def test_the_task_side_travels_without_a_credential(bench: Bench) -> None:
    key = bench.context.login.private_key.get_secret_value().splitlines()[1]
    assert key.encode() not in pickle.dumps(bench.claim().driver.task_side)


def test_a_table_that_needs_nothing_special_passes_and_a_pipe_to_nowhere_does_not(bench: Bench) -> None:
    bench.method.check_table(bench.task, bench.namespace, TABLE, VariantLoader())
    nowhere = PipeLoader(True, bench.namespace.full_name("NOWHERE"), (), "SELECT $1:id FROM {source}")
    with pytest.raises(ConfigError, match="NOWHERE"):
        bench.method.check_table(bench.task, bench.namespace, TABLE, nowhere)


def test_the_privileges_it_names_are_enough_and_none_is_missing_here(bench: Bench) -> None:
    for _ in ("before the first start", "after it"):
        needed = [each.privilege for each in bench.method.privileges(bench.task, bench.namespace, [TABLE])]
        assert held_privileges(bench.task, str(bench.task.role)).missing(needed) == []
        bench.claim()


def test_leftovers_are_found_and_removed_with_their_epoch(bench: Bench) -> None:
    assert (bench.leftovers().newest_epoch, list(bench.leftovers().findings())) == (0, [])
    epoch = bench.claim()
    epoch.write(p0=3)
    found = bench.leftovers()
    assert found.newest_epoch == epoch.session.epoch
    assert found.findings()
    found.remove(bench.task, epoch.session.epoch)
    assert list(bench.leftovers().findings()) == []


def test_a_clean_sink_leaves_nothing_behind_its_commits(bench: Bench) -> None:
    epoch = bench.claim()
    epoch.write(p0=3).commit()
    epoch.driver.finish()
    bench.claim()
    assert not [finding for finding in bench.leftovers().findings() if finding.size]
