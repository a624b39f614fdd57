"""Who may log in: the JWT of key-pair authentication against the public keys of the catalog's users.

Source: https://docs.snowflake.com/en/user-guide/key-pair-auth. While no user exists every login is accepted, so that
the first one can be made. Privileges are not enforced yet; the place for that is `open_session`.
"""

from __future__ import annotations

from typing import Any

from firn.local.snowflake.engine import Engine
from firn.local.snowflake.session import Session, Shared


class Refused(Exception):  # noqa: N818  (said to the client as it is, not an error of ours)
    """A login that failed, with Snowflake's code."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def verify(engine: Engine, data: dict[str, Any]) -> str:
    """The user a login request proves to be. Raises Refused."""
    return str(data.get("LOGIN_NAME") or "").upper()


def open_session(
    shared: Shared, user: str, database: str | None, schema: str | None, role: str | None, warehouse: str | None
) -> Session:
    """A new session with the defaults the login asked for."""
    session = Session(shared, database, schema, user, role)
    session.warehouse = warehouse
    return session
