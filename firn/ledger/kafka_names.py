"""The names under which a sink of a ledger keeps things in Kafka. Pure.

Each begins with a purpose and the ledger's id: sinks of one name in two accounts that share a cluster do not meet.
Not for the group in which positions are published for lag tools, which is named as Kafka Connect names it.
"""

from __future__ import annotations

import re
import secrets
from typing import NamedTuple

_ID_BYTES = 6
_NAME = re.compile(rf"firn-(dlq|replay|tasks|sign|request)-([0-9a-f]{{{2 * _ID_BYTES}}})-(.+)", re.DOTALL)


class GroupName(NamedTuple):
    """What a group's name says."""

    purpose: str
    ledger_id: str
    sink: str


def new_ledger_id() -> str:
    """An id that no other ledger has: 12 hexadecimal digits."""
    return secrets.token_hex(_ID_BYTES)


def dead_letter_group(ledger_id: str, sink: str) -> str:
    """The consumer group of a sink's published dead letters."""
    return f"firn-dlq-{ledger_id}-{sink}"


def replay_group(ledger_id: str, sink: str) -> str:
    """The consumer group of a sink's replayed dead letters."""
    return f"firn-replay-{ledger_id}-{sink}"


def task_group(ledger_id: str, sink: str) -> str:
    """The consumer group in which a sink's tasks report how far they are."""
    return f"firn-tasks-{ledger_id}-{sink}"


def sign_group(ledger_id: str, sink: str) -> str:
    """The consumer group in which a sink's driver says that it lives."""
    return f"firn-sign-{ledger_id}-{sink}"


def request_group(ledger_id: str, sink: str) -> str:
    """The consumer group in which people's commands say that something is wanted of a sink."""
    return f"firn-request-{ledger_id}-{sink}"


def transactional_id(ledger_id: str, sink: str, topic_id: str, partition: int) -> str:
    """The transactional id that publishes the dead letters of a source partition."""
    return f"{dead_letter_group(ledger_id, sink)}-{topic_id}-{partition}"


def read_group_name(group: str) -> GroupName | None:
    """What the name of a group of Firn says; None for any other group."""
    found = _NAME.fullmatch(group)
    return GroupName(*found.groups()) if found else None
