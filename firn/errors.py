"""The two roots of every error a user can meet, and the exit codes they become.

Terminal: a person has to change something. Transient: the same call may succeed later, so the retry layer
(`firn.retry`) tries again within one deadline. Only the retry layer and the exit code tell them apart.
"""

from __future__ import annotations

from typing import ClassVar


class FirnError(Exception):
    """An error with a message for a person: what was found, where, and the next step.

    `what` and `where` are plain sentences without secrets; `next_step` tells what to do about it.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, what: str, *, where: str = "", next_step: str = "") -> None:
        super().__init__(what, where, next_step)
        self.what, self.where, self.next_step = what, where, next_step

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle by name: Spark and Prefect carry errors between processes."""
        return (_rebuild, (type(self), self.what, self.where, self.next_step))

    def __str__(self) -> str:
        parts = [self.what]
        if self.where:
            parts.append(f"Where: {self.where}")
        if self.next_step:
            parts.append(f"Next: {self.next_step}")
        return "\n".join(parts)


def _rebuild(kind: type[FirnError], what: str, where: str, next_step: str) -> FirnError:
    return kind(what, where=where, next_step=next_step)


def unexpected(error: BaseException) -> FirnError:
    """An error that was not foreseen, a bug, as a FirnError of exit code 1."""
    return FirnError(
        f"Unexpected {type(error).__name__}: {error}", next_step="Report this, with the output of `firn --debug`."
    )


class TerminalError(FirnError):
    """Trying again changes nothing; a person has to act. Exit code 3."""

    exit_code = 3


class TransientError(FirnError):
    """The other side did not answer or asked for patience; the same call may succeed later. Exit code 4."""

    exit_code = 4


class ConfigError(TerminalError):
    """A setting, connector parameter or secret is absent or malformed."""


class AuthenticationError(TerminalError):
    """A credential was refused."""


class PrivilegeError(TerminalError):
    """The login works, the role may not do this."""


class FencedError(TerminalError):
    """A newer run of the same sink has claimed the ledger: this one must never write again. Exit code 5."""

    exit_code = 5


class BadRecordError(TerminalError):
    """The sink stopped in front of a record that cannot be converted (errors.tolerance=none). Exit code 6."""

    exit_code = 6


class ClaimAgainError(TransientError):
    """What a run knows of its ledger or its partitions is out of date: it claims again and continues from there."""
