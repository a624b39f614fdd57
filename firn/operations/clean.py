"""Retiring a sink's name: everything that it left behind is looked at, shown, and removed, and nothing else.

The order of the act is such that it may be killed anywhere and given again:

1. The ledger, under its lock: the epoch is raised, so that no run that is silent and lives can commit any more, and the
   owner row says that a clean has begun. From here on no run claims: it would miss what goes next, or write what
   nobody removes. The new epoch is above every one that was found, so "up to this epoch" means all of the past.
2. Staged files up to that epoch, then the row in FIRN_SINKS. Nothing can commit those files, so half
   of it does no harm.
3. Under the ledger's lock again, and only while this clean is still the one: first Kafka's groups (which dead letters
   are out: a run that went on without knowing would publish them twice), then, last, the sink's rows. They go last
   because they keep every run out until all else is gone. The lock row keeps the epoch: a later sink of the name begins
   above it.

A clean that was killed leaves the mark of step 1, the rest is found again by the sink's name, and all steps may be done
twice. Tables, topics, dead letters, the history of schema changes and pipes are never touched. Imports no Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from snowflake.connector import SnowflakeConnection

from firn.connector.config import SinkConfig
from firn.dead_letters.queue import reads
from firn.errors import FirnError
from firn.ledger.retirement import LedgerRetirement
from firn.operations.offsets import running_within
from firn.operations.residue import (
    Finding,
    Groups,
    Rows,
    Staged,
    Supervision,
    find_objects,
    group_names,
    look_at_groups,
    look_at_rows,
    look_at_stage,
    look_at_supervision,
)
from firn.settings import Settings
from firn.sinks.context import kafka_login, spark_log
from firn.snowflake.connection import SnowflakeLogin
from firn.snowflake.identifiers import Namespace, table_for
from spark_jobs.sink.methods.snowpipe.refused_files import refused_files
from spark_jobs.sink.methods.snowpipe.stage import Stage

T = TypeVar("T")


@dataclass(frozen=True)
class Unseen:
    """A place at which nobody looked, and what may be there. fault: why not; None where that was asked for."""

    possible: tuple[Finding, ...]
    fault: FirnError | None

    def findings(self) -> list[Finding]:
        """What may be there."""
        return list(self.possible)


@dataclass(frozen=True)
class Leftovers:
    """What was found of a sink, place by place; objects: what always stays."""

    rows: Rows
    staged: Staged
    supervision: Supervision
    groups: Groups | Unseen
    objects: tuple[Finding, ...]

    def findings(self) -> list[Finding]:
        """Everything, what stays at the end."""
        removed = [*self.rows.findings(), *self.staged.findings(), *self.supervision.findings()]
        found = [*removed, *self.groups.findings(), *self.objects]
        return sorted(found, key=lambda finding: bool(finding.by_hand))

    @property
    def removable(self) -> list[Finding]:
        """What a clean would remove."""
        return [finding for finding in self.findings() if not finding.by_hand]

    @property
    def faults(self) -> dict[str, FirnError]:
        """Why a place did not tell, by its name."""
        return {"kafka": self.groups.fault} if isinstance(self.groups, Unseen) and self.groups.fault else {}


class Cleaner:
    """Looks and acts for one sink, with a session that nobody else uses."""

    def __init__(
        self, config: SinkConfig, settings: Settings, login: SnowflakeLogin, connection: SnowflakeConnection
    ) -> None:
        self._config, self._settings, self._connection = config, settings, connection
        self._namespace = Namespace(login.database, login.schema)
        self.table = LedgerRetirement(self._namespace, config.name)

    def look(self, *, kafka: bool = True) -> Leftovers:
        """Look at everything, or not at all places; changes nothing, and works at any time.

        Raises where Snowflake does not tell; of the other places it says why they do not (`Leftovers.faults`).
        """
        rows = look_at_rows(self._connection, self.table)
        stage = Stage(self._namespace, self._config.name, rows.owner.epoch if rows.owner else 0)
        tables = _tables(self._config, rows)
        log = spark_log(self._settings, self._config.name)
        return Leftovers(
            rows,
            look_at_stage(self._connection, stage, refused_files(rows.owner)),
            look_at_supervision(self._connection, self._namespace, self._config.name),
            _seen(kafka, lambda: self._look_at_groups(tables), self._possible_groups),
            tuple(find_objects(self._connection, self._namespace, self._config, tables, log)),
        )

    def clean(self, found: Leftovers) -> None:
        """Remove what was found and is not to stay.

        Raises SinkRunsError where the sink runs and TerminalError where it ran since it was looked at: nothing is
        changed then. An error behind the first step says that the clean has begun.
        """
        self.table.ensure(self._connection)
        epoch = self.table.begin(
            self._connection,
            running_within=running_within(self._config),
            seen=found.rows.owner,
            positions=found.rows.positions,
            above=max([0, *found.staged.epochs]),
        )
        try:
            self._remove_files(found, epoch)
            found.supervision.remove(self._connection)
            last = found.groups.remove if isinstance(found.groups, Groups) else lambda: None
            self.table.end(self._connection, epoch, last)
        except FirnError as error:
            raise type(error)(
                f"The clean of sink {self._config.name} has begun and not ended: {error.what}",
                where=error.where,
                next_step=f"{error.next_step} Then clean again: until that has ended the sink does not start.",
            ) from error

    def _remove_files(self, found: Leftovers, epoch: int) -> None:
        now = look_at_stage(self._connection, found.staged.stage, ())  # a task of a dead run may have staged since
        for each in now.epochs:
            if each <= epoch:
                now.stage.remove_epoch(self._connection, each)

    def _look_at_groups(self, tables: Mapping[str, str]) -> Groups:
        client = kafka_login(self._config, self._settings)
        return look_at_groups(self._config, client, lambda topic: topic in tables or reads(self._config, topic))

    def _possible_groups(self, why: str) -> list[Finding]:
        command = "kafka-consumer-groups --delete --group '{}'"
        names = group_names(self._config)
        return [
            Finding("consumer group", name, detail=why, by_hand=command.format(name), unseen=True) for name in names
        ]


def _seen(wanted: bool, look: Callable[[], T], possible: Callable[[str], Sequence[Finding]]) -> T | Unseen:
    """What is at a place, or what may be there and why nobody saw it."""
    if not wanted:
        return Unseen(tuple(possible("left, as asked for")), None)
    try:
        return look()
    except FirnError as error:
        return Unseen(tuple(possible(error.what)), error)


def consequences(config: SinkConfig, found: Leftovers) -> list[str]:
    """What the act means, in plain sentences."""
    filled = [each.name for each in found.objects if each.what == "table" and each.count]
    texts = []
    if filled and config.first_offset == "earliest":
        texts.append(
            f"Starting sink {config.name} again would load its topics AGAIN FROM THE START "
            f"(auto.offset.reset=earliest), and the rows in {', '.join(filled)} would be there TWICE."
        )
    elif filled:
        texts.append(
            f"Starting sink {config.name} again would begin at the END of its topics (auto.offset.reset=latest): what "
            "comes until then is NOT loaded."
        )
    if any(each.what == "replay marks" for each in found.removable):
        texts.append("Letters that stay in a dead-letter topic count as not replayed: a replay sends them all again.")
    texts.append("A sink of another name may then load the same topics into the same tables.")
    return texts


def _tables(config: SinkConfig, rows: Rows) -> dict[str, str]:
    """Topic -> table, of the sink's last run and of its file."""
    topics = {*config.topics, *(where.topic for where in rows.positions)}
    named = {topic: table_for(topic, config.table_map) for topic in sorted(topics)}
    return {**named, **(rows.owner.targets if rows.owner else {})}
