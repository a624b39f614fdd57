"""How the dispatcher finds the family of a statement, and what it does where there is none or more than one."""

from __future__ import annotations

import re

import pytest
from snowflake.connector.errors import ProgrammingError
from sqlglot import exp

from firn.settings import PROJECT_ROOT
from firn_local.snowflake.engine.family import AS_IT_IS, Dispatcher, Family, Handler
from firn_local.snowflake.sql.parsing import parse
from firn_local.snowflake.sql.result_set import ResultSet
from firn_local.snowflake.sql.statement import Statement

SHORT, LONG = (lambda *_: ResultSet.status("short")), (lambda *_: ResultSet.status("long"))
TABLE, OTHER = Handler(lambda *_: None), Handler(lambda *_: None)


@pytest.fixture(scope="module")
def dispatcher() -> Dispatcher:
    handlers = {(exp.Drop, "TABLE"): TABLE, (exp.Drop, ""): OTHER}
    return Dispatcher([Family(commands={("SHOW",): SHORT, ("SHOW", "GRANTS"): LONG}), Family(handlers=handlers)])


def statement(sql: str) -> Statement:
    return Statement(sql, parse(sql), "D", "S")


def test_the_longest_words_win_behind_comments(dispatcher: Dispatcher) -> None:
    assert dispatcher.command("/* dbt */ -- x\n show  grants to role R;") is LONG
    assert dispatcher.command("SHOW TABLES") is SHORT
    assert dispatcher.command("SELECT 1") is None


def test_a_kind_of_its_own_goes_before_every_other_kind(dispatcher: Dispatcher) -> None:
    assert dispatcher.handler(statement("DROP TABLE T")) is TABLE
    assert dispatcher.handler(statement("DROP VIEW V")) is OTHER


def test_what_no_family_names_runs_as_it_is_if_it_was_parsed(dispatcher: Dispatcher) -> None:
    assert dispatcher.handler(statement("SELECT 1")) is AS_IT_IS
    with pytest.raises(ProgrammingError, match="Unsupported feature 'CALL F"):
        dispatcher.handler(statement("CALL F(1)"))


def test_two_families_cannot_name_one_statement() -> None:
    with pytest.raises(ValueError, match="Two families"):
        Dispatcher([Family(commands={("SHOW",): SHORT}), Family(commands={("SHOW",): LONG})])


def test_the_readmes_example_runs(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (PROJECT_ROOT / "firn_local" / "README.md").read_text(), re.DOTALL)
    (example,) = [block for block in blocks if "LocalSnowflake(Path(" in block]
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(example, names)
    assert names["rows"] == [("D",)]
