"""The Snowflake driver's errors as those of `firn.errors`, by their number: what was found, where, and the next step.

Not for logging in or running statements (`firn.snowflake.connection`). Numbers are Snowflake's own
(https://docs.snowflake.com/en/user-guide/key-pair-auth-troubleshooting and the driver's errorcode module).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from firn.errors import AuthenticationError, ConfigError, FirnError, PrivilegeError, TerminalError, TransientError
from firn.keys import IN_CONNECTOR, IN_SECRET, KeyPlace

if TYPE_CHECKING:  # who only catches the errors below needs no driver
    from snowflake.connector.errors import Error


class LockConflictError(TransientError):
    """Another transaction holds the lock, or changed the same rows; roll back and start over."""


class QuotaError(TerminalError):
    """A resource monitor keeps the warehouse from running until its quota is raised or its next interval begins."""


class MissingObjectError(TerminalError):
    """A table, stage or schema does not exist, or this role may not see it: Snowflake does not say which."""


@contextmanager
def translated(login: str = "", sql: str = "", role: str = "", place: KeyPlace = IN_SECRET) -> Iterator[None]:
    """Turn the driver's errors into Firn's two roots. `login` says where a login goes; empty for a statement.

    `role` is whose privileges a statement runs with, for the GRANT that a message asks for; `place` is where the key of
    a login stands.
    """
    from snowflake.connector.errors import Error

    try:
        yield
    except Error as error:
        raise _translate(error, login, sql, role, place) from error


_REFUSED = re.compile(r"Insufficient privileges to operate on (?P<kind>[a-z ]+?) '(?P<name>[^']+)'")
_MISSING = re.compile(r"(?P<kind>[A-Z][a-z]+) '(?P<name>[^']+)' does not exist or not authorized")
_CREATE = re.compile(
    r"CREATE\s+(?:OR\s+REPLACE\s+)?(?:TRANSIENT\s+)?(?P<kind>TABLE|VIEW|STAGE|SCHEMA|FILE\s+FORMAT)\s+"
    r"(?:IF\s+NOT\s+EXISTS\s+)?(?P<name>(?:\"[^\"]+\"|[\w$]+)(?:\.(?:\"[^\"]+\"|[\w$]+))*)",
    re.IGNORECASE,
)
# First word of a statement -> the privilege it needs on a table or a stage.
_ON_TABLE = {
    "SELECT": "SELECT", "WITH": "SELECT", "INSERT": "INSERT", "COPY": "INSERT", "UPDATE": "UPDATE", "DELETE": "DELETE",
    "TRUNCATE": "TRUNCATE", "MERGE": "SELECT, INSERT, UPDATE, DELETE",
}  # fmt: skip
_ON_STAGE = {"PUT": "WRITE", "REMOVE": "WRITE", "RM": "WRITE", "LIST": "READ", "LS": "READ", "COPY": "READ"}
_SHOW = "SHOW GRANTS TO ROLE {role};"
# 3901xx and 3902xx are the server's refusals of a login (390144: the JWT is invalid); 2510xx the driver's own.
_SESSION_GONE = {390111, 390112, 390114}
_AUTHENTICATION = {*range(390100, 390300), 251005, 251008} - _SESSION_GONE
_INSUFFICIENT = 3001
_NOT_OF_THIS_USER, _UNSEEN = 3013, 3041
_NOT_FOUND = {2003, 2043, 2004}
_LOCKED, _NO_WAREHOUSE, _QUOTA, _ABORTED = 625, 606, 90073, 603
# 604: it was canceled; 630: it reached a timeout. SQLSTATE 57014 is ANSI's word for all of these.
_CANCELED, _CANCELED_STATE = {604, 630}, "57014"


def _translate(error: Error, login: str, sql: str, role: str, place: KeyPlace) -> FirnError:
    number, text = error.errno or 0, str(error.msg or error).strip()
    where = f"Snowflake, {login}" if login else f"Snowflake, statement: {' '.join(sql.split())[:200]}"
    if number in _AUTHENTICATION:
        return AuthenticationError(
            f"Authentication failed: Snowflake refused the login: {text}",
            where=where,
            next_step=_login_step(text, place),
        )
    if number == _INSUFFICIENT:
        return PrivilegeError(f"Insufficient privileges: {text}", where=where, next_step=_grant_for(text, sql, role))
    if number == _UNSEEN:
        return PrivilegeError(f"Insufficient privileges: {text}", where=where, next_step=_step_for_unseen(sql, role))
    if number == _NOT_OF_THIS_USER:
        step = "GRANT ROLE <role> TO USER <user>; a session may only take roles of its user."
        return PrivilegeError(f"Insufficient privileges: {text}", where=where, next_step=step)
    if number in _NOT_FOUND:
        kind, name = _missing_object(text)
        what = f"{kind} not found: {text}" if kind else text
        return MissingObjectError(what, where=where, next_step=_step_for_missing(kind, name, sql, role))
    if number == _NO_WAREHOUSE:
        return ConfigError(
            text,
            where=where,
            next_step="Name a warehouse that exists: firn.snowflake.warehouse, FIRN_SNOWFLAKE_WAREHOUSE or `warehouse` "
            f"in the Snowflake secret; and GRANT USAGE ON WAREHOUSE <warehouse> TO ROLE {role or '<role>'};",
        )
    if number == _LOCKED:
        return LockConflictError(text, where=where, next_step="Another transaction was in the way; it is tried again.")
    if number == _QUOTA:
        return QuotaError(
            f"The warehouse may not run: {text}",
            where=where,
            next_step="Raise the monitor's quota (ALTER RESOURCE MONITOR <name> SET CREDIT_QUOTA = <credits>;), wait "
            "for its next interval, or name another warehouse; then start again.",
        )
    if number in _CANCELED or error.sqlstate == _CANCELED_STATE:
        return TransientError(
            f"Snowflake canceled the statement: {text}",
            where=where,
            next_step="Look at the load of the warehouse, its STATEMENT_TIMEOUT_IN_SECONDS and "
            "STATEMENT_QUEUED_TIMEOUT_IN_SECONDS, and in the query history for who canceled it.",
        )
    passing = number in _SESSION_GONE or number == _ABORTED or not _is_about_the_statement(error)
    if login or passing:
        return TransientError(
            f"Snowflake does not answer: {text}",
            where=where,
            next_step="Check the host name (snowflake.url.name, FIRN_SNOWFLAKE_URL, the secret's url) and the network; "
            "for the local stack see `firn status`.",
        )
    return TerminalError(text, where=where, next_step="Correct the statement or the object it names.")


def _is_about_the_statement(error: Error) -> bool:
    """Whether the statement is wrong; every other error of the driver is about getting an answer at all."""
    from snowflake.connector.errors import DataError, IntegrityError, NotSupportedError, ProgrammingError

    return isinstance(error, ProgrammingError | DataError | IntegrityError | NotSupportedError)


def _login_step(text: str, place: KeyPlace) -> str:
    """What to do about a refused login, by what Snowflake says of it."""
    if "is not granted to this user" in text:
        return "GRANT ROLE <role> TO USER <user>; or correct `role` in the Snowflake secret (snowflake.role.name)."
    if "specified in the connect string" in text:
        return "Make the role, or correct `role` in the Snowflake secret (snowflake.role.name)."
    if "access disabled" in text:
        return "ALTER USER <user> SET DISABLED = FALSE;"
    names = "snowflake.url.name, snowflake.user.name" if place == IN_CONNECTOR else "account, user, role"
    return (
        f"Check {names} and {place.key} (the full PEM) in {place.holder}; DESC USER shows the fingerprint of the "
        "public key that Snowflake holds."
    )


def _grant_for(text: str, sql: str, role: str) -> str:
    """The next step after "Insufficient privileges": the GRANT statement where it can be told."""
    to = role or "<role>"
    look = _SHOW.format(role=to)
    found = _REFUSED.search(text)
    verb = (sql.split() or [""])[0].upper()
    if found is None:
        return f"See what the role holds: {look}"
    kind, name = found["kind"].upper(), found["name"]
    if (created := _CREATE.match(sql.strip())) and kind in {"SCHEMA", "DATABASE"}:
        privilege = f"CREATE {' '.join(created['kind'].upper().split())}"
        name = created["name"].rpartition(".")[0] or name
    elif verb in {"ALTER", "DROP", "COMMENT", "CREATE"}:
        privilege = "OWNERSHIP"
    else:
        privilege = (_ON_STAGE if kind == "STAGE" else _ON_TABLE).get(verb, "")
    if not privilege:
        return f"Grant what the statement needs on {kind.lower()} {name}; see what the role holds: {look}"
    return f"GRANT {privilege} ON {kind} {_as_written(name, sql)} TO ROLE {to}; see what it holds: {look}"


def _missing_object(text: str) -> tuple[str, str]:
    """(kind of object as a person says it, its name) of "does not exist or not authorized"; empty where untold."""
    found = _MISSING.search(text)
    if found is None:
        return "", ""
    kind = found["kind"]
    return ("Table" if kind in {"Object", "View"} else kind), found["name"]


def _step_for_missing(kind: str, name: str, sql: str, role: str) -> str:
    """How a missing object comes to be, or to be seen."""
    to, full = role or "<role>", _as_written(name, sql)
    if kind == "Table":
        return (
            f"If it is a sink's: auto.create.tables=true makes it, or CREATE TABLE {full} (RECORD_METADATA VARIANT, "
            f"RECORD_CONTENT VARIANT); if it exists: GRANT SELECT, INSERT ON TABLE {full} TO ROLE {to}; and USAGE on "
            "its database and schema."
        )
    if kind == "Stage":
        return (
            "If it was dropped, start the sink again: it makes its stage. If it exists: GRANT READ, WRITE ON "
            f"STAGE {full} TO ROLE {to}; and USAGE on its database and schema."
        )
    if kind in {"Schema", "Database"}:
        upper = kind.upper()
        return f"CREATE {upper} {full}; if it exists: GRANT USAGE ON {upper} {full} TO ROLE {to};"
    if kind in {"Role", "User", "Warehouse"}:
        return f"Correct the name (SHOW {kind.upper()}S lists those there are), or CREATE {kind.upper()} {full};"
    return f"Create the object, or grant the role access to it: {_SHOW.format(role=to)}"


def _step_for_unseen(sql: str, role: str) -> str:
    """After CREATE of what is there already, and hidden from the role."""
    created = _CREATE.match(sql.strip())
    kind, name = (created["kind"].upper(), created["name"]) if created else ("TABLE", "<name>")
    needed = {"TABLE": "SELECT, INSERT, UPDATE", "STAGE": "READ, WRITE", "VIEW": "SELECT"}.get(kind, "USAGE")
    return f"Another role made it: GRANT {needed} ON {kind} {name} TO ROLE {role or '<role>'}; or have it dropped."


def _as_written(name: str, sql: str) -> str:
    """The name with database and schema, where the statement has it so: Snowflake shortens it in some messages."""
    last = re.escape(name.rpartition(".")[2])
    part = r"(?:\"[^\"]+\"|[\w$]+)\."
    found = re.search(rf"(?<![\w$.\"])({part}{part}\"?{last}\"?)(?![\w$])", sql, re.IGNORECASE)
    if found and "." not in name:
        return found[1]
    return name
