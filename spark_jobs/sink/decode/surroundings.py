"""What stands around the values of wide unions and maps in the JSON of the reference decoder.

Not for: reading the values themselves (`compiler`, `leaves`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from spark_jobs.sink.decode import records
from spark_jobs.sink.decode.scalars import quoted
from spark_jobs.sink.decode.schema import Union
from spark_jobs.sink.decode.shapes import branch_names
from spark_jobs.sink.decode.wire import Limits, Reader, too_large

_MAX_KEPT = 1 << 16

Around: TypeAlias = Callable[[int], tuple[str, str]]


def surroundings(node: Union, named: list[int], nulls: list[str], limits: Limits) -> tuple[Around, int]:
    """What stands before and after the value of a branch: the names of all branches, and null for the others.

    named: positions of the branches that are not null; nulls: the text of a null in each. Gives the function for a
    position, and the most characters that it gives. Those of all branches together are quadratic in their number, so
    that they are only kept where they are short.
    """
    names = [quoted(name) + ":" for name in branch_names([node.branches[at] for at in named])]
    pieces = [f"{name}{null}," for name, null in zip(names, nulls, strict=True)]
    text, spans, start = "".join(pieces), dict[int, tuple[str, int, int]](), 0
    for at, name, piece in zip(named, names, pieces, strict=True):
        spans[at] = name, start, start + len(piece)
        start += len(piece)

    def around(at: int) -> tuple[str, str]:
        name, start, end = spans[at]
        after = text[end:-1]
        return f"{{{text[:start]}{name}", f",{after}}}" if after else "}"

    def counted(at: int) -> tuple[str, str]:
        limits.text += len(text)
        if limits.text > records.MAX_TEXT:
            raise too_large(f"the value has more than {records.MAX_TEXT} characters of JSON")
        return around(at)

    kept = len(text) * len(named) <= _MAX_KEPT
    return {at: around(at) for at in named}.__getitem__ if kept else counted, len(text) + 2


def within(value: Reader, around: Around, at: int) -> Reader:
    """The reader of one branch of a wide union, with the names of all."""

    def read(data: bytes, pos: int, out: list[str]) -> int:
        before, after = around(at)
        out.append(before)
        pos = value(data, pos, out)
        out.append(after)
        return pos

    return read


def append_object(out: list[str], entries: Iterable[tuple[str, list[str]]]) -> None:
    """Append an object of names, which are quoted already, and the parts of their values."""
    before = "{"
    for key, parts in entries:
        out.append(before)
        out.append(key)
        out.append(":")
        out += parts
        before = ","
    out.append("{}" if before == "{" else "}")


def append_pairs(out: list[str], entries: dict[tuple[str, ...], list[str]]) -> None:
    """Append an array of [key, value]."""
    before = "["
    for key, parts in entries.items():
        out.append(before + "[")
        out += key
        out.append(",")
        out += parts
        out.append("]")
        before = ","
    out.append("[]" if before == "[" else "]")


def key_text(text: str) -> str:
    """The name that a key becomes: a null one is called null."""
    return '"null"' if text == "null" else text
