"""The owner row of a sink as a value: which run holds it, when it was last heard of, and what it writes where.

Also the rule that two sinks do not write one topic into one table. The row keeps most of it in one JSON document. Not
for its SQL (`rows`), nor for `positions`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, astuple, dataclass, field, fields
from typing import Any

from firn.errors import TerminalError
from firn.snowflake.identifiers import quoted

_FLAGS = ("shared", "letters", "cleaning", "tokens_ahead")


class SharedTargetError(TerminalError):
    """Another sink writes the same topic into the same table: every record would be there twice."""


class SinkRunsError(TerminalError):
    """Positions cannot be set while a run holds the sink and gives signs of life."""


class CleaningError(TerminalError):
    """The sink's name is being retired: nobody may run the sink or set its positions until the clean has ended."""


@dataclass(frozen=True)
class Totals:
    """What a sink has loaded over all its runs: rows, bytes of their texts, batches, and what it left out."""

    records: int = 0
    bytes: int = 0
    batches: int = 0
    bad_records: int = 0
    dead_letters: int = 0

    def __add__(self, other: Totals) -> Totals:
        return Totals(*(mine + theirs for mine, theirs in zip(astuple(self), astuple(other), strict=True)))

    @classmethod
    def of(cls, read: object) -> Totals:
        """What a document holds; all 0 where it holds something else."""
        given = read if isinstance(read, dict) else {}
        return cls(*(int(given.get(each.name) or 0) for each in fields(cls)))


@dataclass(frozen=True)
class Owner:
    """Who may write for a sink.

    epoch: raised by every claim and reset. run_id: the run that claimed; empty once it ended in order, and after a
    reset. silent_seconds: since its last sign of life, by Snowflake's clock alone. targets: topic -> table of the last
    claim. method_state: what the sink's method remembers from run to run, as plain JSON values that nobody else reads.
    claimed: whether a run ever claimed it (a reset may come first). shared: whether doubles were asked for
    (firn.share.target). letters: whether the sink ever had a dead-letter topic, so that some may be published that are
    not committed. cleaning: whether `firn sink clean` has begun to remove what the sink left; its last step removes
    this row. totals: what the sink has loaded; they move with the rows, in one transaction.

    method: the ingestion method of the last claim, as the connector names it; empty before it. generation: what the
    offset tokens of this sink's channels begin with; a reset raises it, and no earlier sink of this name had it.
    tokens_ahead: whether channels may hold rows beyond NEXT_OFFSET, so that whoever takes the sink opens them first.
    """

    epoch: int
    run_id: str
    silent_seconds: float
    targets: Mapping[str, str] = field(default_factory=dict)
    method_state: Mapping[str, Any] = field(default_factory=dict)
    claimed: bool = True
    shared: bool = False
    letters: bool = False
    cleaning: bool = False
    totals: Totals = Totals()
    method: str = ""
    generation: int = 1
    tokens_ahead: bool = False

    @classmethod
    def of(cls, epoch: int, run_id: str, silent_seconds: float, document: str | None) -> Owner:
        """The owner of a row. What is of another shape in its document counts as absent."""
        try:
            read = json.loads(document or "{}")
        except ValueError:
            read = {}
        read = read if isinstance(read, dict) else {}
        generation = read.get("generation")
        return cls(
            epoch,
            run_id,
            silent_seconds,
            targets={str(topic): str(table) for topic, table in _mapping(read.get("targets")).items()},
            method_state=_mapping(read.get("method_state")),
            claimed=read.get("claimed") is not False,
            shared=read.get("shared") is True,
            letters=read.get("letters") is True,
            cleaning=read.get("cleaning") is True,
            totals=Totals.of(read.get("totals")),
            method=str(read.get("method") or ""),
            generation=generation if isinstance(generation, int) else 1,
            tokens_ahead=read.get("tokens_ahead") is True,
        )

    @property
    def document(self) -> str:
        """What the row keeps as JSON; `of` reads it. What is at its default is left out, but for the generation."""
        document: dict[str, object] = {"targets": dict(self.targets), "generation": self.generation}
        if self.method:
            document["method"] = self.method
        if self.method_state:
            document["method_state"] = dict(self.method_state)
        if not self.claimed:
            document["claimed"] = False
        if self.totals != Totals():
            document["totals"] = asdict(self.totals)
        return json.dumps(document | {name: True for name in _FLAGS if getattr(self, name)})

    def runs(self, within: float) -> bool:
        """Whether a run holds the sink and gave a sign of life in the last `within` seconds."""
        return bool(self.run_id) and self.silent_seconds < within

    @property
    def sign_of_life(self) -> str:
        """When it was last heard of, for a message."""
        state = "runs or was killed" if self.run_id else "ended in order"
        return f"last sign of life {spoken(self.silent_seconds)} ago ({state})"


def spoken(seconds: float) -> str:
    """A duration as a person says it."""
    for unit, size in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} seconds"


def check_targets(sink: str, own: Owner | None, targets: Mapping[str, str], others: Mapping[str, Owner]) -> None:
    """Raise SharedTargetError where one of `others` writes a topic into the table that `targets` names for it.

    Tables compare as Snowflake stores their names. A pair that the sink claimed before without sharing is its own: it
    goes on when somebody else was allowed to share it.
    """
    held = set() if own is None or own.shared else _pairs(own.targets)
    wanted = _pairs(targets) - held
    faults = [
        f"  topic {topic} into table {table}: sink {name}, {other.sign_of_life}"
        for name, other in sorted(others.items())
        for topic, table in sorted(wanted & _pairs(other.targets))
    ]
    if faults:
        raise SharedTargetError(
            "Another sink writes the same topic into the same table; every record would be there twice:\n"
            + "\n".join(faults),
            where=f"sink {sink}",
            next_step="Stop using one of the two names (a sink that was renamed goes on under its old name), or set "
            "firn.share.target=true if doubles are intended.",
        )


def check_not_cleaning(sink: str, owner: Owner | None) -> None:
    """Raise CleaningError where a clean of the sink has begun and not ended."""
    if owner and owner.cleaning:
        raise CleaningError(
            f"Sink {sink} is being cleaned: `firn sink clean` began {spoken(owner.silent_seconds)} ago.",
            where=f"sink {sink}",
            next_step="Wait until `firn sink clean <config>` ends, or run it again if it was interrupted. After that "
            "the sink starts as a new one, where auto.offset.reset says.",
        )


def _mapping(read: object) -> dict[str, Any]:
    return dict(read) if isinstance(read, dict) else {}


def _pairs(targets: Mapping[str, str]) -> set[tuple[str, str]]:
    return {(topic, quoted(table)) for topic, table in targets.items()}
