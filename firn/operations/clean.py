"""Retiring a sink's name: everything that it left behind is found, shown, and removed, and nothing else.

The order of the steps is such that a clean may be killed anywhere and given again:

1. The ledger, under its lock: the epoch is raised, so that no run that is silent and alive can commit any more, and the
   owner row says that a clean has begun. From here on no run claims: it would miss what goes next, or write what
   nobody removes. The new epoch is above every one that was found, so "up to this epoch" means all of the past.
2. What the sink's methods left, up to that epoch, then the rows in FIRN_SINKS and FIRN_REQUESTS. Nothing can commit
   what a method left, so half of this step does no harm.
3. Under the ledger's lock again, and only while this clean is still the one: first Kafka's groups (they know which
   dead letters are published: a run that went on without them would publish these twice), then, last, the sink's rows.
   They go last because they keep every run out until all else is gone. The lock row keeps the epoch: a later sink of
   the name begins above it.

A clean that was killed leaves the mark of step 1, the rest is found again by the sink's name, and all steps may be done
twice. Tables, topics, dead letters, the history of schema changes and pipes are never touched.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from snowflake.connector import SnowflakeConnection

from firn.connector.config import SinkConfig
from firn.dead_letters.queue import reads
from firn.errors import FirnError
from firn.ledger.retirement import LedgerRetirement
from firn.operations.residue.consumer_groups import KafkaResidue, find_kafka_residue, possible_groups
from firn.operations.residue.finding import Finding, MethodResidue, RetiredSink
from firn.operations.residue.remaining_objects import (
    TargetOfPipe,
    find_firn_tables,
    find_log,
    find_tables,
    find_topics,
)
from firn.operations.residue.replaced_connector import ReplacedConnector, find_replaced_connector
from firn.operations.residue.sink_records import (
    LedgerRecords,
    SupervisorRecord,
    find_ledger_records,
    find_supervisor_record,
)
from firn.settings import Settings
from firn.sinks.context import kafka_login, spark_log
from firn.snowflake.connection import SnowflakeLogin
from firn.snowflake.identifiers import Namespace, table_for

FindMethodResidue: TypeAlias = Callable[[SnowflakeConnection, RetiredSink], MethodResidue]
"""Finds what a method left of a sink. Changes nothing."""


@dataclass(frozen=True)
class Unseen:
    """A place at which nobody looked, and what may be there. fault: why not; None where that was asked for."""

    possible: tuple[Finding, ...]
    fault: FirnError | None

    def findings(self) -> list[Finding]:
        """What may be there."""
        return list(self.possible)


@dataclass(frozen=True)
class Residue:
    """What was found of a sink, place by place; methods: one by one; remaining: what always stays."""

    ledger: LedgerRecords
    methods: tuple[MethodResidue, ...]
    supervisor: SupervisorRecord
    kafka: KafkaResidue | Unseen
    remaining: tuple[Finding, ...]

    def findings(self) -> list[Finding]:
        """Everything, what stays at the end."""
        places = (self.ledger, *self.methods, self.supervisor, self.kafka)
        found = [finding for place in places for finding in place.findings()]
        return sorted([*found, *self.remaining], key=lambda finding: bool(finding.by_hand))

    @property
    def removable(self) -> list[Finding]:
        """What a clean would remove."""
        return [finding for finding in self.findings() if not finding.by_hand]

    @property
    def newest_epoch(self) -> int:
        """The highest epoch that anything of a method is of; 0 where there is nothing."""
        return max((each.newest_epoch for each in self.methods), default=0)

    @property
    def faults(self) -> dict[str, FirnError]:
        """Why a place did not tell, by its name."""
        return {"kafka": self.kafka.fault} if isinstance(self.kafka, Unseen) and self.kafka.fault else {}


class Cleaner:
    """Looks and acts for one sink, with a session that nobody else uses.

    find_residue: of each method there is, whichever the sink had last. With target_of_pipe, what only the sink's own
    code can find. They change nothing.
    """

    def __init__(
        self,
        config: SinkConfig,
        settings: Settings,
        login: SnowflakeLogin,
        connection: SnowflakeConnection,
        find_residue: Sequence[FindMethodResidue],
        target_of_pipe: TargetOfPipe,
    ) -> None:
        self._config, self._settings, self._login, self._connection = config, settings, login, connection
        self._namespace = Namespace(login.database, login.schema)
        self._find_residue, self._target_of_pipe = find_residue, target_of_pipe
        self.ledger = LedgerRetirement(self._namespace, config.name)

    def look(self, *, kafka: bool = True) -> Residue:
        """Look at everything, or not at Kafka; changes nothing, and works at any time.

        Raises where Snowflake does not tell; of Kafka it says why not (`Residue.faults`).
        """
        connection, namespace, sink = self._connection, self._namespace, self._config.name
        records = find_ledger_records(connection, self.ledger)
        methods = self._look_at_methods(records)
        tables = _tables(self._config, records)
        remaining = (
            *find_tables(connection, namespace, self._config, tables, self._target_of_pipe),
            *find_firn_tables(connection, namespace, sink),
            *(finding for method in methods for finding in method.shared()),
            *find_topics(self._config, tables),
            *find_log(spark_log(self._settings, sink)),
        )
        supervisor = find_supervisor_record(connection, namespace, sink)
        in_kafka = self._look_at_kafka(records.ledger_id, tables) if kafka else self._unseen(records.ledger_id)
        return Residue(records, methods, supervisor, in_kafka, remaining)

    def replaced_connector(self) -> ReplacedConnector:
        """What the official connector of this name left for the sink's tables; changes nothing."""
        tables = _tables(self._config, find_ledger_records(self._connection, self.ledger))
        names = list(dict.fromkeys(tables.values()))
        return find_replaced_connector(self._connection, self._namespace, self._config.name, names)

    def clean(self, found: Residue, within: float) -> None:
        """Remove what was found and is not to stay. within: see `await_stillness`.

        Raises SinkRunsError where the sink runs and TerminalError where it ran since it was looked at: nothing is
        changed then. An error behind the first step says that the clean has begun.
        """
        self.ledger.ensure(self._connection)
        epoch = self.ledger.begin(
            self._connection,
            running_within=within,
            seen=found.ledger.owner,
            positions=found.ledger.positions,
            above=found.newest_epoch,
        )
        try:
            for method in found.methods:
                method.remove(self._connection, epoch)
            found.supervisor.remove(self._connection)
            last = found.kafka.remove if isinstance(found.kafka, KafkaResidue) else lambda: None
            self.ledger.end(self._connection, epoch, last)
        except FirnError as error:
            raise type(error)(
                f"The clean of sink {self._config.name} has begun and not ended: {error.what}",
                where=error.where,
                next_step=f"{error.next_step} Then run `firn sink clean` again: the sink does not start until it ends.",
            ) from error

    def _look_at_methods(self, records: LedgerRecords) -> tuple[MethodResidue, ...]:
        owner, positions, ledger_id = records.owner, records.positions, records.ledger_id
        sink = RetiredSink(self._config.name, self._login, self._settings, owner, positions, ledger_id)
        return tuple(find(self._connection, sink) for find in self._find_residue)

    def _look_at_kafka(self, ledger_id: str | None, tables: Mapping[str, str]) -> KafkaResidue | Unseen:
        """What is there, or why nobody could see it."""
        config = self._config
        try:
            client = kafka_login(config, self._settings)
            return find_kafka_residue(config, ledger_id, client, lambda topic: topic in tables or reads(config, topic))
        except FirnError as error:
            return self._unseen(ledger_id, error)

    def _unseen(self, ledger_id: str | None, fault: FirnError | None = None) -> Unseen:
        reason = fault.what if fault else "left, as asked for"
        return Unseen(tuple(possible_groups(self._config, ledger_id, reason)), fault)


def consequences(config: SinkConfig, found: Residue) -> list[str]:
    """What the clean means, in plain sentences."""
    filled = [each.name for each in found.remaining if each.what == "table" and each.count]
    texts = []
    if filled and config.first_offset == "earliest":
        texts.append(
            f"Starting sink {config.name} again would load its topics AGAIN FROM THE START "
            f"(auto.offset.reset=earliest), and the rows in {', '.join(filled)} would be there TWICE."
        )
    elif filled:
        texts.append(
            f"Starting sink {config.name} again would begin at the END of its topics (auto.offset.reset=latest): "
            "records produced until then are NOT loaded."
        )
    if any(each.what == "replay positions" for each in found.removable):
        texts.append("Dead letters that stay in their topic count as not replayed: a replay sends all of them again.")
    texts.append("A sink of another name may then load the same topics into the same tables.")
    return texts


def _tables(config: SinkConfig, records: LedgerRecords) -> dict[str, str]:
    """Topic -> table, of the sink's last run and of its file."""
    topics = {*config.topics, *(where.topic for where in records.positions)}
    named = {topic: table_for(topic, config.table_map) for topic in sorted(topics)}
    return {**named, **(records.owner.targets if records.owner else {})}
