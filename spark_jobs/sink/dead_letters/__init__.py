"""Dead letters: records that errors.tolerance=all leaves out of the table go to a topic, each exactly once.

docs/decisions/0005-dead-letters.md has the protocol. The driver makes a queue and its topic, and asks after each claim
what is out already; each task has a box for its partition. Not for deciding which records are bad (`decode`).
"""

from spark_jobs.sink.dead_letters.box import LetterBox, Published
from spark_jobs.sink.dead_letters.published import Letters, forget_letters, published_letters
from spark_jobs.sink.dead_letters.queue import DeadLetterQueue, dead_letter_queue
from spark_jobs.sink.dead_letters.topic import ensure_topic

__all__ = [
    "DeadLetterQueue",
    "LetterBox",
    "Letters",
    "Published",
    "dead_letter_queue",
    "ensure_topic",
    "forget_letters",
    "published_letters",
]
