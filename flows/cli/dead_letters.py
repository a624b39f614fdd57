"""What `firn sink dead-letters` and `firn export dead-letters` have in common: their options, and one letter shown."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import orjson
import typer

from flows.cli.console import print_rows

NewestOption = Annotated[
    int, typer.Option("--newest", min=1, help="Number of letters for each partition of the dead-letter topic.")
]
AllOption = Annotated[bool, typer.Option("--all", help="List all letters in the topic.")]
PartitionArgument = Annotated[int, typer.Argument(min=0, help="Partition of the dead-letter topic.")]
OffsetArgument = Annotated[int, typer.Argument(min=0, help="Offset in that partition.")]
OneJsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document with all bytes.")]
_LONGEST = 1000  # characters of a key or value in a table


def print_letter(shown: Mapping[str, Any], columns: Sequence[str], *, as_json: bool) -> None:
    """Print one dead letter. shown: as `firn.dead_letters.reader.document` gives it; columns: its first lines."""
    if as_json:
        sys.stdout.buffer.write(orjson.dumps(dict(shown), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
        sys.stdout.buffer.flush()
        return
    rows = [{"what": name, "content": shown[name]} for name in columns]
    rows += [{"what": f"header {each['name']}", **_content(each)} for each in shown["headers"]]
    rows += [{"what": name, **_content(shown[name])} for name in ("key", "value")]
    print_rows(rows, columns=("what", "bytes", "content"), folded="content")


def _content(shown: dict[str, Any] | None) -> dict[str, Any]:
    """Cells for bytes: their size, and text or digits, shortened."""
    if shown is None or shown["size"] is None:
        return {"bytes": "none"}
    text = shown["text"] if "text" in shown else f"0x{shown['hex']}"
    return {"bytes": shown["size"], "content": text if len(text) <= _LONGEST else f"{text[:_LONGEST]}... (--json: all)"}
