"""What an export needs in Snowflake before it moves anything: its tables, and a stream for each table it follows.

All of it is DDL, which would commit a move halfway, so it is done before. Each object is looked for first: making one
needs a privilege that an export may lose once everything is there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from firn.connector.export.config import ExportConfig, SourceKind
from firn.exports import names
from firn.exports.checks import ensure_checks
from firn.exports.history import ensure_history
from firn.exports.ledger import ExportLedger
from firn.exports.moves import compared, cursor
from firn.exports.outbox import ensure_outbox
from firn.exports.source import Source
from firn.exports.streams import create_stream, find_stream
from firn.exports.tasks import remove_task
from firn.snowflake.connection import execute
from firn.snowflake.tables import make_unless_there

if TYPE_CHECKING:
    from snowflake.connector import SnowflakeConnection

_CREATE_STATE = "CREATE TABLE {state} ({columns})"


def prepare(
    connection: SnowflakeConnection, ledger: ExportLedger, config: ExportConfig, sources: Iterable[Source]
) -> None:
    """Make what is absent: the ledger, history, checks; outboxes, states and streams of these sources.

    May be repeated, and is where a source was found that was not there before. A task that an earlier configuration
    asked for is dropped: nobody would replace it once columns change.
    """
    ledger.ensure(connection)
    ensure_history(connection, ledger.namespace)
    ensure_checks(connection, ledger.namespace)
    for source in sources:
        if config.task is None:
            remove_task(connection, ledger, source)
        ensure_outbox(connection, ledger.namespace, names.outbox(config.name, source.name), source.outbox)
        _ensure_state(connection, ledger, source)
        _ensure_stream(connection, config, source)


def _ensure_state(connection: SnowflakeConnection, ledger: ExportLedger, source: Source) -> None:
    if not source.state:
        return
    columns = cursor.STATE_COLUMNS if source.kind is SourceKind.CURSOR else compared.STATE_COLUMNS
    create = _CREATE_STATE.format(state=source.state, columns=columns)
    name = names.state(source.export, source.name)
    make_unless_there(connection, ledger.namespace, name, lambda: execute(connection, create))


def _ensure_stream(connection: SnowflakeConnection, config: ExportConfig, source: Source) -> None:
    """The stream of a table that the export follows; one that somebody made stays theirs."""
    stream, base = source.stream, source.base
    if not source.makes_stream or stream is None or base is None:
        return
    if find_stream(connection, stream) is None:
        initial = config.snapshot.initial == "rows"
        create_stream(connection, stream, base, export=config.name, source=source.name, initial=initial)
