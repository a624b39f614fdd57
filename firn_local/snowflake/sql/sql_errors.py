"""DuckDB's and fakesnow's exceptions as Snowflake errors. Not for transport.

Codes are those the real Snowflake gives for the same fault, as its users report them; texts begin as the real ones do.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import duckdb
import snowflake.connector.errors as sf
import sqlglot.errors

UNSUPPORTED = (2, "0A000")
SYNTAX = (1003, "42000")
INVALID_IDENTIFIER = (904, "42000")
DUPLICATE = (2002, "42710")
MISSING = (2003, "42S02")
MISSING_OTHER = (2043, "02000")
CANCELED = (604, "57014")
LOCKED = (625, "57014")
NUMERIC = (100038, "22018")
NULL_IN_COLUMN = (100072, "22000")
OUT_OF_RANGE = (100046, "22003")
DIVISION = (100051, "22012")
TOO_LONG = (100078, "22000")
RESOURCES = (300005, "53200")
INTERNAL = (300002, "XX000")


class LocalError(sf.ProgrammingError):
    """An error that already is what the client shall see."""


def sql_error(code: tuple[int, str], message: str) -> LocalError:
    """A Snowflake error: `code` is (errno, sqlstate)."""
    return LocalError(msg=message, errno=code[0], sqlstate=code[1])


def compilation_error(code: tuple[int, str], message: str) -> sf.ProgrammingError:
    """The same with the prefix of every fault found before a statement runs."""
    return sql_error(code, f"SQL compilation error:\n{message}")


def missing(kind: str, name: str) -> sf.ProgrammingError:
    """An object that is not there (or, on the real Snowflake, may not be seen)."""
    code = MISSING if kind in {"Object", "Table", "View"} else MISSING_OTHER
    return compilation_error(code, f"{kind} '{name}' does not exist or not authorized.")


def duplicate(name: str) -> sf.ProgrammingError:
    """An object that is there already."""
    return compilation_error(DUPLICATE, f"Object '{name}' already exists.")


def unsupported(statement: str, reason: str = "") -> sf.ProgrammingError:
    """A statement the local Snowflake does not know; the message repeats its first words."""
    detail = f" ({reason})" if reason else ""
    return compilation_error(UNSUPPORTED, f"Unsupported feature '{beginning_of(statement)}'{detail} (local Snowflake).")


def beginning_of(statement: str, count: int = 6) -> str:
    """The statement's first words, without string literals: they may hold credentials."""
    return " ".join(re.sub(r"'(?:[^']|'')*'", "'...'", statement).split()[:count])


@dataclass(frozen=True)
class _Rule:
    """One kind of DuckDB exception: the code it becomes, and the pattern and text of its message."""

    exception: type[Exception]
    pattern: str
    code: tuple[int, str]
    text: str


_RANGE = "Number out of representable range: {0}"
_RULES = [
    _Rule(duckdb.ParserException, r"(.*)", SYNTAX, "SQL compilation error:\n{0}"),
    _Rule(
        duckdb.CatalogException,
        r"(?:Table|View|Schema|Sequence|Stage|Catalog|Database) with name \"?([^\s\"]+)\"? does not exist",
        MISSING,
        "SQL compilation error:\nObject '{0}' does not exist or not authorized.",
    ),
    _Rule(
        duckdb.CatalogException,
        r"with name \"([^\"]+)\" already exists",
        DUPLICATE,
        "SQL compilation error:\nObject '{0}' already exists.",
    ),
    _Rule(
        duckdb.CatalogException,
        r"(?:Scalar|Table|Aggregate)?.*Function with name \"?([^\s\"]+)\"? does not exist",
        (2140, "42601"),
        "SQL compilation error:\nUnknown function {0}",
    ),
    _Rule(duckdb.CatalogException, r"(.*write-write conflict.*)", LOCKED, "Statement conflicts with another: {0}"),
    _Rule(duckdb.CatalogException, r"(.*)", MISSING, "SQL compilation error:\n{0}"),
    _Rule(
        duckdb.BinderException,
        r"(?:Referenced (?:update )?column|column) \"?([^\"]+?)\"? not found|column with name \"([^\"]+)\"",
        INVALID_IDENTIFIER,
        "SQL compilation error: error line 1 at position 0\ninvalid identifier '{0}'",
    ),
    _Rule(
        duckdb.BinderException,
        r"(?:Catalog|Schema|Database) \"([^\"]+)\" does not exist",
        MISSING,
        "SQL compilation error:\nObject '{0}' does not exist or not authorized.",
    ),
    _Rule(
        duckdb.BinderException,
        r"(.*Attempting to write to database.*)",
        UNSUPPORTED,
        "Unsupported feature 'writes to two databases in one transaction' (local Snowflake): {0}",
    ),
    _Rule(duckdb.BinderException, r"(.*)", MISSING_OTHER, "SQL compilation error:\n{0}"),
    _Rule(duckdb.ResourceInUseException, r"(.*)", DUPLICATE, "SQL compilation error:\n{0}"),
    _Rule(
        duckdb.TransactionException,
        r"(.*Attempting to write to database.*)",
        UNSUPPORTED,
        "Unsupported feature 'writes to two databases in one transaction' (local Snowflake): {0}",
    ),
    _Rule(
        duckdb.TransactionException,
        r"(.*)",
        LOCKED,
        "Statement aborted: another transaction changed the same rows and this one was rolled back: {0}",
    ),
    _Rule(
        duckdb.ConstraintException,
        r"NOT NULL constraint failed: (.+)",
        NULL_IN_COLUMN,
        "NULL result in a non-nullable column: {0}",
    ),
    _Rule(duckdb.ConstraintException, r"(.*)", (200001, "22000"), "Constraint violated: {0}"),
    _Rule(duckdb.ConversionException, r"(.*(?:for the destination type|to type DECIMAL).*)", OUT_OF_RANGE, _RANGE),
    _Rule(duckdb.ConversionException, r"Could not cast value (\S+ to DECIMAL.*)", OUT_OF_RANGE, _RANGE),
    _Rule(duckdb.ConversionException, r"(.*)", NUMERIC, "{0}"),
    _Rule(duckdb.InvalidInputException, r"(String '.*' is too long and would be truncated)", TOO_LONG, "{0}"),
    _Rule(duckdb.InvalidInputException, r"(NULL result in a non-nullable column: .*)", NULL_IN_COLUMN, "{0}"),
    _Rule(duckdb.InvalidInputException, r"(Division by zero)", DIVISION, "{0}"),
    _Rule(duckdb.InvalidInputException, r"Number out of representable range: (.*)", OUT_OF_RANGE, _RANGE),
    _Rule(duckdb.OutOfRangeException, r"(.*)", OUT_OF_RANGE, _RANGE),
    _Rule(duckdb.InterruptException, r"(.*)", CANCELED, "SQL execution canceled"),
    _Rule(duckdb.OutOfMemoryException, r"(.*)", RESOURCES, "Processing aborted, out of memory: {0}"),
    _Rule(duckdb.NotImplementedException, r"(.*)", UNSUPPORTED, "Unsupported feature (local Snowflake): {0}"),
    _Rule(duckdb.InvalidInputException, r"(.*)", (100069, "22P02"), "{0}"),
    _Rule(duckdb.IOException, r"(.*)", (91016, "22000"), "{0}"),
    _Rule(duckdb.Error, r"(.*)", INTERNAL, "Processing aborted by error (local Snowflake): {0}"),
]


def to_snowflake(error: Exception, statement: str) -> sf.ProgrammingError:
    """The Snowflake error for anything `statement` may raise. Always returns one: nothing becomes an HTTP 500."""
    if isinstance(error, LocalError):
        return error
    if isinstance(error.__cause__, duckdb.Error):
        error = error.__cause__
    if isinstance(error, duckdb.Error):
        return _from_duckdb(error)
    if isinstance(error, sf.Error):
        return sql_error((error.errno or INTERNAL[0], error.sqlstate or INTERNAL[1]), error.raw_msg or str(error))
    if isinstance(error, sqlglot.errors.SqlglotError):
        return compilation_error(SYNTAX, f"syntax error in '{beginning_of(statement)}': {_plain(error)}")
    if isinstance(error, (NotImplementedError, AssertionError, ValueError, KeyError, AttributeError, TypeError)):
        return unsupported(statement, f"{type(error).__name__}: {error}"[:200])
    return sql_error(INTERNAL, f"Processing aborted by error {type(error).__name__} (local Snowflake).")


def _from_duckdb(error: duckdb.Error) -> sf.ProgrammingError:
    message = str(error.args[0] if error.args else error)
    first_line = message.split("\n", 1)[0]
    for rule in _RULES:
        if isinstance(error, rule.exception) and (match := re.search(rule.pattern, first_line, re.IGNORECASE)):
            return sql_error(rule.code, rule.text.format(next(filter(None, match.groups()), "")))
    return sql_error(INTERNAL, first_line)


def _plain(error: Exception) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", str(error))
