"""Numbers with their noun, for messages."""

from __future__ import annotations


def counted(number: int, one: str, many: str = "") -> str:
    """`1 file`, `2 files`; `many` for a plural that does not just end in s."""
    return f"{number} {one if number == 1 else many or one + 's'}"
