"""The paths of refused files are remembered in order, each once, beside whatever else the method remembers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, cast

from snowflake.connector import SnowflakeConnection

from firn.ledger.owner import Owner
from firn.ledger.table import LedgerTable
from spark_jobs.sink.methods.snowpipe.refused_files import forget_others, refused_files, remember_refused

CONNECTION = cast(SnowflakeConnection, None)


class FakeTable:
    """An owner row in memory."""

    def __init__(self) -> None:
        self.owner = Owner(1, "run", 0.0, method_state={"other": 1})

    def update_method_state(
        self, _connection: object, _epoch: int, change: Callable[[Mapping[str, Any]], Mapping[str, Any]]
    ) -> None:
        self.owner = replace(self.owner, method_state=change(self.owner.method_state))


def test_refused_files_are_remembered_in_order_and_each_once() -> None:
    table = FakeTable()
    for paths in (["s/t/a.parquet"], ["s/t/b.parquet", "s/t/a.parquet"]):
        remember_refused(cast(LedgerTable, table), CONNECTION, 1, paths)
    assert refused_files(table.owner) == ("s/t/a.parquet", "s/t/b.parquet")
    assert table.owner.method_state["other"] == 1


def test_files_that_are_gone_are_forgotten() -> None:
    table = FakeTable()
    remember_refused(cast(LedgerTable, table), CONNECTION, 1, ["a", "b"])
    forget_others(cast(LedgerTable, table), CONNECTION, 1, {"b"})
    assert refused_files(table.owner) == ("b",)


def test_a_sink_without_an_owner_has_none() -> None:
    assert refused_files(None) == refused_files(Owner(1, "", 0.0)) == ()
