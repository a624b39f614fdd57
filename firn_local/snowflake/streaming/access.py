"""Who calls the streaming service, and what the caller's role may do.

Logins as `server.authentication` takes them: the JWT of key-pair authentication, its role in the claim `scp`.
Privileges (INSERT on the table, USAGE on database and schema, OPERATE on a pipe that somebody made):
https://docs.snowflake.com/en/user-guide/snowpipe-streaming/snowpipe-streaming-access-control.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from snowflake.connector.errors import ProgrammingError

from firn_local.snowflake.engine.account import Account
from firn_local.snowflake.privileges import enforcement, key_pairs, principal_table
from firn_local.snowflake.privileges.requirements import Need
from firn_local.snowflake.privileges.role_grants import ADMIN, RoleGrants
from firn_local.snowflake.streaming.pipes import Pipe
from firn_local.snowflake.streaming.protocol_errors import PIPE_MISSING, TABLE_MISSING, missing, unauthorized

_ROLE_SCOPE = "session:role:"


@dataclass(frozen=True)
class Caller:
    """A user in a role, as `enforcement` wants to know it; secondary roles do not count.

    Its rights are checked unless no user has been made yet, as for a session.
    """

    account: Account
    user: str
    role: str
    is_restricted: bool
    warehouse: str | None = None
    temporary: AbstractSet[str] = frozenset()
    is_serverless: bool = False

    @property
    def role_grants(self) -> RoleGrants:
        """The grants of its account."""
        return self.account.role_grants

    @property
    def account_name(self) -> str:
        """Its account."""
        return self.account.name

    def secondary_roles(self) -> frozenset[str]:
        """None: a scoped token is for one role."""
        return frozenset()


def logged_in(account: Account, token: str) -> Caller:
    """The caller that a key-pair JWT proves. Raises ProtocolError with the codes of a login."""
    claims = key_pairs.claims(token)
    user = str(claims.get("sub", "")).rpartition(".")[2]
    role = _asked_role(claims.get("scp"))
    if not principal_table.any_user(account.store):
        return Caller(account, user, role or ADMIN, is_restricted=False)
    kept = principal_table.properties(account.store, "USER", user)
    if kept is None or not key_pairs.proves(token, kept, account.only_name, user):
        raise unauthorized("390144", "JWT token is invalid.")
    if kept.get("DISABLED") is True:
        raise unauthorized("390101", "User access disabled. Contact your local system administrator.")
    role = _allowed_role(account, user, role, str(kept.get("DEFAULT_ROLE") or "PUBLIC"))
    return Caller(account, user, role, is_restricted=True)


def still_there(account: Account, user: str, role: str) -> Caller:
    """The caller that a scoped token stands for. Raises ProtocolError where the user was dropped or disabled since."""
    kept = principal_table.properties(account.store, "USER", user)
    if kept is None and not principal_table.any_user(account.store):
        return Caller(account, user, role, is_restricted=False)
    if kept is None or kept.get("DISABLED") is True:
        raise unauthorized("390101", "User access disabled. Contact your local system administrator.")
    return Caller(account, user, role, is_restricted=True)


def demand(caller: Caller, pipe: Pipe) -> None:
    """Raise ProtocolError where the caller may not write through the pipe."""
    if not pipe.is_default:
        _demand(caller, Need(("OPERATE",), "PIPE", pipe.full_name), PIPE_MISSING)
    _demand(caller, Need(("INSERT",), "TABLE", pipe.table), TABLE_MISSING)


def _demand(caller: Caller, need: Need, code: str) -> None:
    try:
        enforcement.demand(caller, need)
    except ProgrammingError as refused:
        raise missing(code, str(refused.raw_msg).replace("\n", " ")) from None


def _asked_role(scope: object) -> str | None:
    parts = scope if isinstance(scope, list) else str(scope or "").split()
    named = [str(part)[len(_ROLE_SCOPE) :] for part in parts if str(part).startswith(_ROLE_SCOPE)]
    return named[0].upper() if named else None


def _allowed_role(account: Account, user: str, asked: str | None, default: str) -> str:
    role = asked or default
    if account.role_grants.now().may_take(user, role):
        return role
    if asked is None:
        return "PUBLIC"
    raise unauthorized("390186", f"Role '{role}' specified in the connect string is not granted to this user.")
