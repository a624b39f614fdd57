"""Which query may be answered by the persisted result of an earlier one. Keeps no rows: only whether they still hold.

Source: "Using Persisted Query Results" in Snowflake's documentation: the same text to the letter, no function that
gives another result each time, table data unchanged, the same options, a role with the privileges, kept for 24 hours
from its last use and 31 days at most. Snowflake adds that all of this does not guarantee reuse. Where that page is
silent, this module says no: for views, temporary tables, stages, INFORMATION_SCHEMA and functions of the session.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlglot import Expr, exp

from firn_local.snowflake.sql.statement import Kind, Statement

RETENTION_SECONDS = 24 * 3600.0
LONGEST_RETENTION_SECONDS = 31 * 24 * 3600.0
_MOST_RESULTS = 10_000
_PER_EXECUTION = {
    "RAND", "RANDOM", "RANDSTR", "UUID", "UUID_STRING", "NORMAL", "UNIFORM", "ZIPF", "SEQ1", "SEQ2", "SEQ4", "SEQ8",
    "SYSDATE", "GETDATE", "SYSTIMESTAMP", "LOCALTIME", "LOCALTIMESTAMP", "INVOKER_ROLE", "INVOKER_SHARE",
}  # fmt: skip
_OF_SESSIONS = ("CURRENT_", "LAST_", "SYSTEM$", "ALL_USER_NAMES", "IS_ROLE_IN_SESSION")
_OPTIONS = {"TIMEZONE", "WEEK_START", "WEEK_OF_YEAR_POLICY", "TWO_DIGIT_CENTURY_START", "JSON_INDENT"}


@dataclass(frozen=True)
class Request:
    """What makes two queries the same: text, bound values, the names' place, options that affect a result."""

    sql: str
    values: str
    place: tuple[str | None, str | None]
    options: tuple[tuple[str, str], ...]


@dataclass
class _Kept:
    versions: tuple[int, ...]
    first: float
    last: float
    of_tables: bool | None = None
    """Whether only tables are read, no view; found out at the first reuse."""


class PersistedResults:
    """The results that are still kept, by request; `versions` are those of the tables that a query reads."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Request, _Kept] = OrderedDict()

    def reuse(self, request: Request, versions: tuple[int, ...], now: float, are_tables: Callable[[], bool]) -> bool:
        """Whether a result of this request holds; using it lengthens its life.

        are_tables: whether all that is read are tables. A view's own version says nothing of the tables behind it.
        """
        kept = self._kept.get(request)
        if kept is None or kept.versions != versions:
            return False
        if kept.of_tables is None:
            kept.of_tables = are_tables()
        if not kept.of_tables:
            return False
        if now - kept.last >= RETENTION_SECONDS or now - kept.first >= LONGEST_RETENTION_SECONDS:
            del self._kept[request]
            return False
        kept.last = now
        self._kept.move_to_end(request)
        return True

    def keep(self, request: Request, versions: tuple[int, ...], now: float) -> None:
        """A query was answered, from tables in these versions."""
        self._kept[request] = _Kept(versions, now, now)
        self._kept.move_to_end(request)
        if len(self._kept) > _MOST_RESULTS:
            self._kept.popitem(last=False)


def is_repeatable(statement: Statement) -> bool:
    """Whether a statement is a query that gives the same result for the same tables.

    No function of the moment, the session or chance, and no source but tables.
    """
    return statement.kind is Kind.QUERY and not any(_changes(node) for node in statement.expression.walk())


def options_of(parameters: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """The session parameters that affect how a result is produced."""
    found = ((name, str(value)) for name, value in parameters.items() if name in _OPTIONS or name.endswith("_FORMAT"))
    return tuple(sorted(found))


def _changes(node: Expr) -> bool:
    """Whether a part of a query may give another result each time."""
    match node:
        case exp.Column() | exp.Dot():  # a sequence's NEXTVAL
            return node.name.upper() == "NEXTVAL"
        case exp.Anonymous():
            name = node.name.upper()
        case exp.Func():
            name = node.sql_name()
        case exp.Table():
            return not isinstance(node.this, exp.Identifier)
        case _:
            return isinstance(node, (exp.TableFromRows, exp.UDTF))
    return name in _PER_EXECUTION or name.startswith(_OF_SESSIONS)
