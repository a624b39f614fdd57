"""A worker's Snowflake session: one login at a time, replaced when it died or was revoked."""

from __future__ import annotations

import pytest

from firn.errors import AuthenticationError, FirnError, PrivilegeError, TransientError
from spark_jobs.sink.task import worker


class Session:
    """A session that notes its end."""

    def __init__(self, login: str) -> None:
        self.login, self.closed = login, False

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[Session]:
    """Every session that was opened, oldest first."""
    sessions: list[Session] = []

    def open_connection(login: str) -> Session:
        sessions.append(Session(login))
        return sessions[-1]

    monkeypatch.setattr(worker, "open_connection", open_connection)
    monkeypatch.setattr(worker, "_sessions", {})
    return sessions


def use(login: str, fault: FirnError | None = None) -> None:
    def work(_connection: object) -> None:
        if fault:
            raise fault

    worker._in_session(login, work)  # type: ignore[arg-type]


def test_a_session_is_used_again(opened: list[Session]) -> None:
    use("old")
    use("old")
    with pytest.raises(PrivilegeError):
        use("old", PrivilegeError("no INSERT"))
    use("old")
    assert [session.login for session in opened] == ["old"]


def test_the_session_of_another_login_is_closed(opened: list[Session]) -> None:
    use("old")
    use("new")
    assert [(session.login, session.closed) for session in opened] == [("old", True), ("new", False)]


@pytest.mark.parametrize("fault", [TransientError("gone"), AuthenticationError("revoked")])
def test_a_session_that_is_lost_or_revoked_is_replaced(opened: list[Session], fault: FirnError) -> None:
    with pytest.raises(type(fault)):
        use("old", fault)
    use("old")
    assert [session.closed for session in opened] == [True, False]
