"""Dead letters of an export as a person sees them: rows that no message could be made of, each with where it came from.

A letter's value is the row as JSON, masked; its headers lead to the batch in FIRN_EXPORT_HISTORY. None is sent back: a
row of then may be older than what was published of its key since. Once the cause is corrected, a re-sync publishes the
rows of now (`firn.operations.exports.resync`).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from firn.dead_letters.reader import DeadLetter, DeadLetterReader, Summary, document, number
from firn.errors import ConfigError
from firn.exports.context import ExportContext

COLUMNS = ("partition", "offset", "source", "batch", "row_id", "action", "topic", "time", "reason")


@dataclass(frozen=True)
class RowLetter:
    """A dead letter as one line; what it does not tell is None. topic: where the row's message would have gone."""

    partition: int
    offset: int
    source: str | None
    batch: int | None
    row_id: str | None
    action: str | None
    topic: str | None
    time: str
    reason: str | None

    @classmethod
    def of(cls, letter: DeadLetter) -> RowLetter:
        """The line of a dead letter."""
        headers = {name: (value or b"").decode(errors="replace") for name, value in letter.headers}
        about = Summary.of(letter)
        return cls(
            letter.partition,
            letter.offset,
            headers.get("firn.source"),
            number(headers.get("firn.batch")),
            headers.get("firn.row_id"),
            headers.get("firn.action"),
            about.topic,
            about.time,
            about.reason,
        )


def letters_of(context: ExportContext) -> DeadLetterReader:
    """What reads the dead letters of an export. Raises ConfigError where it publishes none."""
    config = context.config
    topic = config.errors.dead_letter_topic
    if not topic or not config.publishes_letters:
        raise ConfigError(
            f"Export {config.name} publishes no dead letters.",
            where="errors.deadletterqueue.topic.name",
            next_step="Set errors.tolerance=all, or a quality check's action to dead letter, and name a topic there.",
        )
    return DeadLetterReader(context.kafka, topic, config.name, "export")


def row_letter_document(letter: DeadLetter) -> dict[str, Any]:
    """All of a dead letter, for JSON: its line, key, value and headers."""
    shown = document(letter)
    return {**asdict(RowLetter.of(letter)), **{name: shown[name] for name in ("key", "value", "headers")}}
