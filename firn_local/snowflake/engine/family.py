"""The contract of a family of statements, and the dispatcher that finds whose a statement is.

A family says which statements are its own: by their first words, before anything is parsed (for those that sqlglot
does not parse), or by the node at the top of their syntax tree and the kind of object it is about. It gets the session,
the statement, and an `Execution` for what DuckDB shall do. It knows neither the cursor nor another family; the engine
knows no family. `firn_local.snowflake.instance` lists them all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa
from sqlglot import Expr, exp

from firn_local.snowflake.engine.login_session import Session
from firn_local.snowflake.privileges import requirements
from firn_local.snowflake.privileges.requirements import Finder
from firn_local.snowflake.sql.result_set import ResultSet
from firn_local.snowflake.sql.sql_errors import unsupported
from firn_local.snowflake.sql.statement import Kind, Statement
from firn_local.snowflake.sql.tokenizer import first_words
from firn_local.snowflake.store.duckdb_store import Store


class Execution(Protocol):
    """One statement on its way through DuckDB."""

    @property
    def params(self) -> Any:
        """Its bound values."""

    def rewritten(self) -> Expr:
        """A copy of its tree in which temporary objects, positions, values and functions are as DuckDB finds them."""

    def translated(self, tree: Expr) -> Expr:
        """A tree in DuckDB's dialect (changed in place)."""

    def run(self, tree: Expr) -> None:
        """Run a tree as fakesnow does; its result is the statement's."""

    def filter_result(self, keep: Callable[[pa.Table], pa.Table]) -> None:
        """Replace the rows of the result by those that `keep` leaves."""


Command = Callable[[Session, str], ResultSet]
"""Runs a statement from its text."""
Run = Callable[[Session, Statement, Execution], ResultSet | None]
"""Runs a parsed statement; None where the result is that of the execution."""


@dataclass(frozen=True)
class Handler:
    """How a parsed statement runs, what it needs, and how it meets the open transaction (None: as its tree says)."""

    run: Run
    needs: Finder = requirements.nothing
    kind: Kind | None = None


@dataclass(frozen=True)
class Family:
    """Statements about one subject."""

    commands: Mapping[tuple[str, ...], Command] = field(default_factory=dict)
    """By their first words."""
    handlers: Mapping[tuple[type[Expr], str], Handler] = field(default_factory=dict)
    """By node and `Statement.object_kind`; an empty kind stands for every other one."""
    create_tables: Callable[[Store], None] | None = None
    """Makes what it keeps durably; run at every start."""
    on_removed: Callable[[Store, str], None] | None = None
    """Forgets what was inside a database (`DB`) or schema (`DB.SCHEMA`) that is dropped."""


class Dispatcher:
    """Finds the command or handler of a statement."""

    def __init__(self, families: Iterable[Family]) -> None:
        self._commands: dict[tuple[str, ...], Command] = {}
        self._handlers: dict[tuple[type[Expr], str], Handler] = {}
        for family in families:
            taken = {*self._commands, *self._handlers} & {*family.commands, *family.handlers}
            if taken:
                raise ValueError(f"Two families of statements name {taken}.")
            self._commands |= family.commands
            self._handlers |= family.handlers
        self._longest = max((len(words) for words in self._commands), default=0)

    def command(self, sql: str) -> Command | None:
        """The command whose words `sql` begins with; the longest match wins."""
        words = first_words(sql, self._longest)
        for length in range(len(words), 0, -1):
            if (command := self._commands.get(words[:length])) is not None:
                return command
        return None

    def handler(self, statement: Statement) -> Handler:
        """The handler of a parsed statement. What no family names runs as fakesnow does it, if sqlglot parsed it."""
        node = type(statement.expression)
        named = self._handlers.get((node, statement.object_kind)) or self._handlers.get((node, ""))
        if named is None and isinstance(statement.expression, exp.Command):
            raise unsupported(statement.sql)
        return named or AS_IT_IS


def as_it_is(_: Session, __: Statement, execution: Execution) -> None:
    """Run a statement as fakesnow does."""
    execution.run(execution.rewritten())


AS_IT_IS = Handler(as_it_is)
