"""Who may log in, and the session they get.

Source: https://docs.snowflake.com/en/user-guide/key-pair-auth. While no user exists every login is accepted, so that
the first one can be made. What a session may do once it is open: `privileges`.
"""

from __future__ import annotations

from typing import Any

from firn_local.snowflake.engine.account import Account
from firn_local.snowflake.engine.login_session import Session
from firn_local.snowflake.privileges import key_pairs, principal_table

ADMIN_ROLE = "ACCOUNTADMIN"


class Refused(Exception):  # noqa: N818  (an answer to the client)
    """A login that failed, with Snowflake's code."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def verify(account: Account, data: dict[str, Any]) -> str:
    """The user a login request proves to be. Raises Refused."""
    user = str(data.get("LOGIN_NAME") or "").upper()
    if not principal_table.any_user(account.store):
        return user
    if str(data.get("AUTHENTICATOR", "")).upper() != "SNOWFLAKE_JWT":
        raise Refused("390100", "Incorrect username or password was specified.")
    kept = principal_table.properties(account.store, "USER", user)
    if kept is None or not key_pairs.proves(str(data.get("TOKEN")), kept, account.only_name, user):
        raise Refused("390144", "JWT token is invalid.")
    if kept.get("DISABLED") is True:
        raise Refused("390101", "User access disabled. Contact your local system administrator.")
    return user


def open_session(
    account: Account, user: str, database: str | None, schema: str | None, role: str | None, warehouse: str | None
) -> Session:
    """A new session with what the login asked for, else the user's defaults.

    Raises Refused for a role that does not exist or is not granted to the user.
    """
    kept = principal_table.properties(account.store, "USER", user)
    defaults = kept or {}
    if kept is None:
        role = role or ADMIN_ROLE
    elif role is not None:
        _check_role(account, user, role)
    else:
        default = str(defaults.get("DEFAULT_ROLE") or "PUBLIC")
        role = default if account.role_grants.now().may_take(user, default) else "PUBLIC"
    session = Session(account, user, role)
    session.secondary = "ALL" in str(defaults.get("DEFAULT_SECONDARY_ROLES", "")).upper()
    session.warehouse = warehouse or defaults.get("DEFAULT_WAREHOUSE")
    namespace = str(defaults.get("DEFAULT_NAMESPACE") or "").split(".")
    session.enter(database or namespace[0] or None, schema or (namespace[1] if len(namespace) > 1 else None))
    return session


def _check_role(account: Account, user: str, role: str) -> None:
    wrong = None
    if principal_table.properties(account.store, "ROLE", role) is None:
        wrong = "390189", "does not exist or not authorized"
    elif not account.role_grants.now().may_take(user, role):
        wrong = "390186", "is not granted to this user"
    if wrong is not None:
        advice = "Contact your local system administrator, or attempt to login with another role, e.g. PUBLIC."
        raise Refused(wrong[0], f"Role '{role}' specified in the connect string {wrong[1]}. {advice}")
