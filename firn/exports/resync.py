"""Re-sync of one source: all its rows are published once more, then changes go on from there.

What is in the outbox stays, and is published first. A stream is made again with the rows of now in front; the changes
before it are moved just before, so only a row that is deleted in the moment between is not told of. A cursor forgets
where it stood. A comparison forgets its hashes and not its keys, so every row becomes an update, and one that is gone
still a DELETE. Source: https://docs.snowflake.com/en/sql-reference/sql/create-stream.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from firn.connector.export.config import ExportConfig, SourceKind
from firn.exports.ledger import ClaimedExport, ExportLedger, SourceState
from firn.exports.moves.move import move
from firn.exports.source import Source
from firn.exports.streams import replace_stream
from firn.snowflake.connection import execute
from firn.snowflake.transactions import transaction

if TYPE_CHECKING:
    from snowflake.connector import SnowflakeConnection

_FORGET = {
    SourceKind.CURSOR: "DELETE FROM {state}",
    SourceKind.COMPARED: "UPDATE {state} SET HASH = ''",
}


def resync(
    connection: SnowflakeConnection,
    ledger: ExportLedger,
    claimed: ClaimedExport,
    source: Source,
    config: ExportConfig,
) -> SourceState:
    """Let the next move of a source bring all its rows. Returns the source's state from now on.

    The role must own the stream, which keeps its name, kind and grants. Raises as `move`.
    """
    state = move(connection, ledger, claimed, source, config).state
    again = replace(state, snapshot=True, seen=None, cursor=None)
    with transaction(connection):
        ledger.advance(connection, claimed.epoch, source.name, again)
        if source.state:
            execute(connection, _FORGET[source.kind].format(state=source.state))
    if source.asks_streams:
        for stream in source.asked:
            replace_stream(connection, stream, source=source.name)
    return again
