"""Staged files that COPY refused: their paths are remembered in the sink's owner row, so that clean-up leaves them.

A refused file is evidence for a person. It stays in the stage until `firn sink clean` retires the sink, or until
somebody removes it by hand. Not for deciding that a file is refused (`copy_into`).
"""

from __future__ import annotations

from collections.abc import Iterable

from snowflake.connector import SnowflakeConnection

from firn.ledger.owner import Owner
from firn.ledger.table import LedgerTable

REFUSED_FILES = "refused_files"
"""Key of `Owner.method_state`: paths in the stage of the files that COPY refused, which clean-ups leave."""


def refused_files(owner: Owner | None) -> tuple[str, ...]:
    """The paths in the stage, in the order in which COPY refused them; none before the first claim."""
    return tuple(map(str, owner.method_state.get(REFUSED_FILES) or ())) if owner else ()


def remember_refused(table: LedgerTable, connection: SnowflakeConnection, epoch: int, paths: Iterable[str]) -> None:
    """Add these paths. Raises FencedError where the run does not hold the sink any more."""
    table.update_method_state(
        connection,
        epoch,
        lambda state: {**state, REFUSED_FILES: list(dict.fromkeys((*(state.get(REFUSED_FILES) or ()), *paths)))},
    )


def forget_others(table: LedgerTable, connection: SnowflakeConnection, epoch: int, paths: Iterable[str]) -> None:
    """Remember these paths alone: the others are not in the stage any more. Errors as `remember_refused`."""
    table.update_method_state(connection, epoch, lambda state: {**state, REFUSED_FILES: sorted(paths)})
