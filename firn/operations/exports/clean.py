"""Retiring an export's name: what it made and remembers is found, shown, and removed, and nothing else.

The order is such that a clean may be killed anywhere and given again:

1. A claim of its own raises EPOCH: no run that is alive can move or settle any more.
2. The markers in Kafka, each by the producer that owns it, which fences whoever publishes. From here on a run that
   starts ends with an error (its marker is gone), so nothing is published twice in between.
3. Tasks, streams, outboxes and states; the supervisor's rows; the groups with signs of life.
4. Last the rows of FIRN_EXPORTS. The lock row keeps the epoch: a later export of the name begins above it.

Topics, dead letters, schemas in the registry, streams that somebody made and the history stay.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from firn.exports import names
from firn.exports.context import ExportContext
from firn.exports.ledger import ExportLedger, ExportStanding
from firn.exports.made_objects import MadeObject, find_made, remove_made
from firn.exports.markers import MarkerKey, find_markers, remove_markers
from firn.kafka import cluster
from firn.ledger.control import requester
from firn.ledger.kafka_names import request_group, sign_group
from firn.operations.exports.liveness import check_over
from firn.operations.residue.finding import Finding
from firn.operations.residue.sink_records import SupervisorRecord, find_supervisor_record
from firn.snowflake.identifiers import text_literal, written
from firn.snowflake.tables import table_exists

if TYPE_CHECKING:
    from snowflake.connector import SnowflakeConnection

_DELETE_ROWS = "DELETE FROM {table} WHERE EXPORT = {export};"


@dataclass(frozen=True)
class ExportResidue:
    """What was found of an export. standing: None where FIRN_EXPORTS knows nothing of it."""

    standing: ExportStanding | None
    markers: tuple[MarkerKey, ...]
    objects: tuple[MadeObject, ...]
    supervisor: SupervisorRecord
    groups: tuple[str, ...]
    remaining: tuple[Finding, ...]

    def findings(self) -> list[Finding]:
        """Everything, what stays at the end."""
        found = [Finding(each.kind.lower(), written(each.name), each.rows, None, each.purpose) for each in self.objects]
        found += [Finding("marker", each.record.decode(), 1, None, "what is published") for each in self.markers]
        found += [Finding("consumer group", each, detail="signs of life") for each in self.groups]
        if self.standing is not None:
            sources = len(self.standing.sources)
            found.append(Finding("ledger", f"epoch {self.standing.epoch}", sources + 1, None, "owner and sources"))
        found = [*found, *self.supervisor.findings(), *self.remaining]
        return sorted(found, key=lambda each: bool(each.by_hand))

    @property
    def removable(self) -> list[Finding]:
        """What a clean would remove."""
        return [each for each in self.findings() if not each.by_hand]

    @property
    def waiting(self) -> int:
        """Rows in outboxes, which nobody would publish any more."""
        return sum(each.rows or 0 for each in self.objects if each.purpose == "changes that wait")


class ExportCleaner:
    """Looks and acts for one export, with a session that nobody else uses."""

    def __init__(self, connection: SnowflakeConnection, context: ExportContext) -> None:
        self._connection, self._context, self._name = connection, context, context.config.name
        self._ledger = ExportLedger(context.namespace, self._name)

    def look(self) -> ExportResidue:
        """Look at everything; changes nothing, and works at any time. Raises as Snowflake and Kafka tell."""
        connection, namespace = self._connection, self._context.namespace
        standing, control = self._ledger.standing(connection), names.control_name(self._name)
        sources = {*(each.name for each in self._context.config.sources), *(standing.sources if standing else ())}
        return ExportResidue(
            standing,
            self._markers(standing),
            find_made(connection, namespace, self._name, sorted(sources)),
            find_supervisor_record(connection, namespace, control),
            self._groups(standing),
            self._remaining(),
        )

    def check(self, found: ExportResidue) -> None:
        """Raise ExportRunsError where a run holds the export and lives."""
        if found.standing is not None:
            check_over(self._context, found.standing)

    def clean(self, found: ExportResidue) -> None:
        """Remove what there is by now and is not to stay. May be repeated."""
        connection, config = self._connection, self._context.config
        if found.standing is not None:
            self._ledger.claim(connection, (), {"run_id": "", "clean": requester()})
        found = self.look()
        remove_markers(self._context.kafka, config.marker_topic, found.markers)
        remove_made(connection, found.objects)
        found.supervisor.remove(connection)
        cluster.delete_groups(cluster.admin_client(self._context.kafka), found.groups)
        if found.standing is not None:
            self._ledger.remove(connection)

    def _markers(self, standing: ExportStanding | None) -> tuple[MarkerKey, ...]:
        topic, client = self._context.config.marker_topic, self._context.kafka
        if standing is None or topic not in cluster.find_topics(cluster.admin_client(client), [topic]):
            return ()
        return tuple(sorted(find_markers(client, topic, standing.id)))

    def _groups(self, standing: ExportStanding | None) -> tuple[str, ...]:
        if standing is None:
            return ()
        possible = [named(standing.id, names.control_name(self._name)) for named in (sign_group, request_group)]
        return tuple(cluster.find_groups(cluster.admin_client(self._context.kafka), possible))

    def _remaining(self) -> tuple[Finding, ...]:
        """Rows about what was published: they stay for those who ask where a message came from."""
        namespace, export = self._context.namespace, text_literal(self._name)
        return tuple(
            Finding(
                "rows of the history",
                namespace.qualified(table),
                detail=detail,
                by_hand=_DELETE_ROWS.format(table=namespace.qualified(table), export=export),
            )
            for table, detail in ((names.HISTORY, "published batches"), (names.CHECKS, "results of quality checks"))
            if table_exists(self._connection, namespace, table)
        )
