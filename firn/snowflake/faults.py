"""The Snowflake driver's errors as those of `firn.errors`, by their number: what was found, where, and the next step.

Not for logging in or running statements (`firn.snowflake.connection`). Numbers are Snowflake's own
(https://docs.snowflake.com/en/user-guide/key-pair-auth-troubleshooting and the driver's errorcode module).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from firn.errors import AuthenticationError, ConfigError, FirnError, PrivilegeError, TerminalError, TransientError
from firn.keys import IN_CONNECTOR, IN_SECRET, KeyPlace
from firn.snowflake.fixes import grant_for, missing_object, step_for_missing, step_for_unseen

if TYPE_CHECKING:  # who only catches the errors below needs no driver
    from snowflake.connector.errors import Error


class LockConflictError(TransientError):
    """Another transaction holds the lock, or changed the same rows; roll back and start over."""


class QuotaError(TerminalError):
    """A resource monitor keeps the warehouse from running until its quota is raised or begins anew."""


class MissingObjectError(TerminalError):
    """A table, stage or schema does not exist, or this role may not see it: Snowflake does not tell which."""


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


# 3901xx and 3902xx are the server's refusals of a login (390144: the JWT is invalid); 2510xx the driver's own.
_SESSION_GONE = {390111, 390112, 390114}
_AUTHENTICATION = {*range(390100, 390300), 251005, 251008} - _SESSION_GONE
_INSUFFICIENT = 3001
_NOT_OF_THIS_USER, _UNSEEN = 3013, 3041
_NOT_FOUND = {2003, 2043, 2004}
_LOCKED, _NO_WAREHOUSE, _QUOTA, _ABORTED = 625, 606, 90073, 603
# 604: somebody or something canceled it; 630: it reached a timeout. SQLSTATE 57014 is ANSI's word for all of these.
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
        return PrivilegeError(f"Insufficient privileges: {text}", where=where, next_step=grant_for(text, sql, role))
    if number == _UNSEEN:
        return PrivilegeError(f"Insufficient privileges: {text}", where=where, next_step=step_for_unseen(sql, role))
    if number == _NOT_OF_THIS_USER:
        step = "GRANT ROLE <role> TO USER <user>; a session may only take roles of its user."
        return PrivilegeError(f"Insufficient privileges: {text}", where=where, next_step=step)
    if number in _NOT_FOUND:
        kind, name = missing_object(text)
        what = f"{kind} not found: {text}" if kind else text
        return MissingObjectError(what, where=where, next_step=step_for_missing(kind, name, sql, role))
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
