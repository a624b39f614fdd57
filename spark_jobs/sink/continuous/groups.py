"""Groups of partitions, one task each: who is in which, which of them run, and which have to start. Pure state.

Which partition is in which group is settled for an epoch: whoever wants it otherwise claims again. Not for running them
(`run`), nor for how far their partitions are (`progress`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from firn.kafka.partitions import TopicPartition
from spark_jobs.sink.planner import grouped


@dataclass
class Group:
    """Partitions that one task follows at a time. attempt: of the task that runs or ran last; heard: when it was heard.

    runs: whether a task runs. again: whether it must start whatever waits, because its task ended with work left.
    """

    partitions: tuple[TopicPartition, ...]
    attempt: int = 0
    heard: float = 0.0
    runs: bool = False
    again: bool = False


@dataclass
class Groups:
    """All groups of an epoch, at most as many as tasks can run at a time."""

    groups: list[Group]
    _attempts: int = field(default=0, init=False)

    @classmethod
    def balanced(cls, backlog: Mapping[TopicPartition, int], most: int, *, at_once: bool = False) -> Groups:
        """At most so many groups, with about the same number of waiting records each, and of partitions.

        at_once: whether each of them has to start whatever waits.
        """
        # A partition counts also where nothing waits: it will have its records.
        average = sum(backlog.values()) / max(1, len(backlog))
        members = grouped(sorted(backlog), most, lambda where: 1 + int(backlog[where] + average))
        return cls([Group(tuple(sorted(each)), again=at_once) for each in members])

    @property
    def running(self) -> list[Group]:
        """Those with a task."""
        return [each for each in self.groups if each.runs]

    def due(self, waiting: Collection[TopicPartition]) -> list[Group]:
        """Those that have to start: records of theirs wait, or a task of theirs ended with work left."""
        wanted = frozenset(waiting)
        return [each for each in self.groups if not each.runs and (each.again or wanted.intersection(each.partitions))]

    def started(self, group: Group, now: float) -> None:
        """A task of the group begins: its attempt is a number that no other task of the epoch has."""
        self._attempts += 1
        group.attempt, group.heard, group.runs, group.again = self._attempts, now, True, False

    def ended(self, group: Group, *, again: bool) -> None:
        """Its task has ended."""
        group.runs, group.again = False, again

    def heard(self, attempts: Iterable[int], now: float) -> None:
        """These tasks have reported something new."""
        found = frozenset(attempts)
        for each in self.running:
            if each.attempt in found:
                each.heard = now

    def silent(self, now: float, seconds: float) -> list[Group]:
        """Those whose task has not reported anything for so long."""
        return [each for each in self.running if now - each.heard > seconds]
