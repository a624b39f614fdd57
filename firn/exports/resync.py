"""Re-sync of one source: all its rows are published once more, then changes go on from there.

What is in the outbox stays, and is published first; the rows come behind it.

- A stream of a table or view: the next move consumes it, and in the same transaction takes all rows of its table
  (`firn.exports.moves.all_rows`). No change is missed, and the stream stays as it is.
- A stream that is stale has lost its changes. It is made again, and begins with the rows of now: of a row that was
  deleted while the stream was stale nobody is told.
- SQL over streams has no table whose rows could be taken. Its changes are moved, then its streams are made again with
  the rows of now in front. A row that is deleted between the move and that moment is not told of: delete nothing there
  while such a source is re-synced.
- A cursor forgets where it stood. A comparison forgets its hashes and not its keys, so every row becomes an update, and
  one that is gone still a DELETE.

Source: https://docs.snowflake.com/en/sql-reference/sql/create-stream.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from firn.connector.export.config import ExportConfig, SourceKind
from firn.exports.ledger import ClaimedExport, ExportLedger, SourceState
from firn.exports.moves.move import move
from firn.exports.source import Source
from firn.exports.streams import replace_stream, require_stream
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

    Streams that are made again keep name, kind and grants, and the role must own them. Raises as `move`.
    """
    state, stale = claimed.sources[source.name], is_stale(connection, source)
    if source.kind is SourceKind.QUERY or stale:
        if not stale:
            state = move(connection, ledger, claimed, source, config).state
        return _made_again(connection, ledger, claimed, source, state)
    again = state if state.snapshot else replace(state, resync=True, seen=None, cursor=None)
    with transaction(connection):
        ledger.advance(connection, claimed.epoch, source.name, again)
        if source.state:
            execute(connection, _FORGET[source.kind].format(state=source.state))
    return again


def _made_again(
    connection: SnowflakeConnection, ledger: ExportLedger, claimed: ClaimedExport, source: Source, state: SourceState
) -> SourceState:
    """Streams that begin with the rows of now. The state goes first: with an old stream it does no harm."""
    again = replace(state, snapshot=True, seen=None)
    ledger.remember(connection, claimed.epoch, source.name, again)
    for stream in source.asked:
        replace_stream(connection, stream, source=source.name)
    return again


def is_stale(connection: SnowflakeConnection, source: Source) -> bool:
    """Whether a stream of the source has lost its changes. Raises ConfigError for one that is not there."""
    return any(require_stream(connection, stream, source.name).stale for stream in source.streams)
