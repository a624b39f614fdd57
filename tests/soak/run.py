"""One soak from start to verdict: a stack, a producer, a sink, faults by schedule, quiet, drain, judgement.

Raises nothing for what the product does wrong: that stands in the result. What keeps the soak from being a proof (a
fault that did not fire, a producer that failed) is a failure of the soak, and stands there as well.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from firn.connector.config import Method
from firn.errors import FirnError
from firn.kafka.partitions import TopicPartition
from tests.soak.evidence import evidence
from tests.soak.faults import FAULTS
from tests.soak.keeper import Keeper
from tests.soak.letters import read_letters
from tests.soak.schedule import Planned
from tests.soak.stack import SoakStack
from tests.soak.traffic import Acknowledged, Traffic
from tests.soak.verdict import Found, Verdict
from tests.soak.watch import Watch
from tests.soak.world import SETTLE_SECONDS, World
from tests.support.kafka import Topic
from tests.support.sinks import committed, wait_until
from tests.support.toxics import ToxicProxy, toxic_proxy

SINK = "soak"
DRAIN_SECONDS = 300
_LAST_SECONDS = 10.0
_QUIET_SHARE, _QUIET_SECONDS = 0.1, 60.0
Say = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    """What a soak is told. Times in seconds, rates in records per second, `malformed` as a share."""

    seed: int
    seconds: float
    faults: Sequence[Planned]
    rate: float
    malformed: float
    method: Method = Method.SNOWPIPE


@dataclass
class Outcome:
    """What one fault did: how we know that it fired, and the seconds to the first commit after it."""

    kind: str
    evidence: str
    recovery: float


@dataclass
class Result:
    """What a soak found out."""

    records: int = 0
    outcomes: list[Outcome] = field(default_factory=list)
    commits: int = 0
    restarts: int = 0
    ends: dict[str, int] = field(default_factory=dict)
    verdict: Verdict = field(default_factory=Verdict)
    failures: list[str] = field(default_factory=list)
    drained: bool = False
    seconds: float = 0.0

    @property
    def clean(self) -> bool:
        """Whether the soak ran as planned and nothing was doubled or lost."""
        return not self.failures and not self.verdict.faults


def quiet_seconds(seconds: float) -> float:
    """How long the producer goes on after the last fault."""
    return min(_QUIET_SHARE * seconds, _QUIET_SECONDS)


def run_soak(plan: Plan, stack: SoakStack, say: Say) -> Result:
    """Run it on a stack that is not up yet; the caller closes the stack."""
    result, began = Result(), time.monotonic()
    stack.start()
    with toxic_proxy(stack.home.url("snowflake")) as proxy:
        soak = _Soak(plan, stack, proxy, say)
        try:
            soak.run(result)
        except Exception as error:
            say(f"the soak ends: {error!r}")
            result.failures.append(str(error) if isinstance(error, AssertionError) else f"it broke: {error!r}")
        except BaseException:  # Ctrl-C, SIGTERM: no verdict, only the end
            soak.abandon()
            raise
        soak.end(result)
    result.seconds = time.monotonic() - began
    return result


class _Soak:
    def __init__(self, plan: Plan, stack: SoakStack, proxy: ToxicProxy, say: Say) -> None:
        self._plan, self._stack, self._say = plan, stack, say
        settings = stack.settings
        self._settings = settings
        self._busy, self._slow = Topic(settings, "soak-busy", 3), Topic(settings, "soak-slow", 1)
        self._letters = Topic(settings, "soak-letters", 1) if plan.malformed else None
        self._traffic = Traffic(
            plan.seed, self._busy, self._slow, rate=plan.rate, quiet_rate=1.0, malformed=plan.malformed
        )
        self._watch = Watch(settings, SINK)
        self._keeper = Keeper(stack, self._config(stack.root, proxy), say)
        self._world = World(stack, self._keeper, self._traffic, self._watch, proxy, SINK)

    def run(self, result: Result) -> None:
        """Everything up to the verdict."""
        self._traffic.start()
        self._keeper.start()
        self._watch.start()
        self._watch.await_commit(0.0, seconds=SETTLE_SECONDS, what="the first commit")
        began = time.monotonic()
        self._say(f"first commit; {len(self._plan.faults)} faults follow")
        for planned in self._plan.faults:
            self._sleep_until(began + planned.at)
            result.outcomes.append(self._inject(planned))
        quiet = quiet_seconds(self._plan.seconds)
        self._sleep_until(max(began + self._plan.seconds, time.monotonic() + quiet))
        self._traffic.stop()
        self._say("the producer has stopped; draining")
        self._drain()
        result.drained = True

    def end(self, result: Result) -> None:
        """Stop the parts that run, and judge."""
        self._stack.start()  # a fault that failed may have left a server down
        self._traffic.stop(seconds=_LAST_SECONDS)
        if self._keeper.drivers and (fault := self._keeper.stop()):
            result.failures.append(fault)
        self._watch.stop()
        result.failures += self._keeper.failures + self._traffic.failures
        result.records = sum(each.records for each in self._traffic.acknowledged.values())
        result.commits, result.restarts = len(self._watch.commits), self._keeper.restarts
        result.ends = dict(self._keeper.ends)
        try:
            self._judge(result)
        except (FirnError, AssertionError) as error:
            result.failures.append(f"there is no verdict: {error}")

    def abandon(self) -> None:
        """Start nothing any more; what runs is ended with the stack."""
        self._keeper.abandon()

    def _judge(self, result: Result) -> None:
        letters = read_letters(self._letters) if self._letters else {}
        sent = self._traffic.acknowledged
        found: dict[TopicPartition, Found] = {}
        for topic in (self._busy, self._slow):
            found |= evidence(self._settings, topic, letters)
        for where, each in found.items():
            result.verdict.judge(where, each, sent.get(where, Acknowledged()), drained=result.drained)
        result.failures += [f"{where} is not in the ledger" for where in sorted(set(sent) - set(found))]

    def _inject(self, planned: Planned) -> Outcome:
        self._check()
        self._say(f"fault {planned.number}: {planned.kind}")
        fired = FAULTS[planned.kind](self._world, planned)
        over = time.time()
        what = f"a commit after {planned.kind} (fault {planned.number})"
        self._watch.await_commit(over, seconds=SETTLE_SECONDS, what=what)
        first = self._watch.first_commit_after(fired.at)
        assert first is not None
        self._say(f"  {fired.evidence}; first commit after {first - fired.at:.1f} s")
        return Outcome(planned.kind, fired.evidence, first - fired.at)

    def _drain(self) -> None:
        def drained() -> bool:
            self._check()
            return self._lag() == 0

        wait_until(drained, seconds=DRAIN_SECONDS, what="the lag is 0")

    def _lag(self) -> int:
        at = {topic.name: committed(self._settings, topic) for topic in (self._busy, self._slow)}
        return sum(
            each.end - at[where.topic].get(where.partition, 0) for where, each in self._traffic.acknowledged.items()
        )

    def _sleep_until(self, moment: float) -> None:
        while (left := moment - time.monotonic()) > 0:
            self._check()
            time.sleep(min(left, 0.5))

    def _check(self) -> None:
        broken = self._keeper.failures + self._traffic.failures
        assert not broken, "the soak cannot go on"

    def _config(self, folder: Path, proxy: ToxicProxy) -> Path:
        """The sink's configuration: small batches, so that many commits stand in the way of faults."""
        topics = (self._busy, self._slow)
        config = {
            "topics": ",".join(topic.name for topic in topics),
            "snowflake.topic2table.map": ",".join(f"{topic.name}:{topic.table}" for topic in topics),
            "snowflake.url.name": proxy.address,
            "snowflake.ingestion.method": str(self._plan.method),
            "buffer.count.records": "300",
            "buffer.flush.time": "10",
            "firn.batch.records": "5000",
            "firn.topics.refresh.seconds": "3",
        }
        if self._plan.method is Method.SNOWPIPE_STREAMING:
            config |= {"firn.ledger.seconds": "2"}  # the ledger tells the soak of commits
        if self._letters:
            config |= {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": self._letters.name}
            config |= {"errors.deadletterqueue.topic.replication.factor": "1"}
            config |= {"errors.deadletterqueue.context.headers.enable": "true"}
        file = folder / f"{SINK}.json"
        file.write_text(json.dumps({"name": SINK, "config": config}))
        return file
