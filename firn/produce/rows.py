"""Rows of a CSV, JSON-lines or Parquet file, one at a time in bounded memory, with the number a person counts.

Not for what the values mean (`coerce`). CSV and JSON lines are counted as the lines of the file
(the header is line 1), as an editor shows them; Parquet rows start at 1.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TextIO

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from firn.errors import ConfigError, TerminalError

_BATCH_ROWS = 10_000

Format = Literal["csv", "jsonl", "parquet"]
FORMATS: dict[str, Format] = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}


class UnreadableRowError(TerminalError):
    """The file itself is broken from here on: cut-off quotes, a missing cell, a line that is not JSON."""


@dataclass(frozen=True)
class RowFile:
    """A file of rows. `columns` are its column names, or None where each row names its own (JSON lines)."""

    path: Path
    format: Format
    columns: tuple[str, ...] | None
    size: int | None = None

    @property
    def text(self) -> bool:
        """Whether every value is text."""
        return self.format == "csv"

    def rows(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """(number, row) pairs. Raises UnreadableRowError where the file breaks off."""
        return {"csv": _csv_rows, "jsonl": _json_rows, "parquet": _parquet_rows}[self.format](self.path)

    def place(self, number: int) -> str:
        """Where a row is, for messages."""
        return f"{self.path.name}, {'row' if self.format == 'parquet' else 'line'} {number}"


def open_rows(path: Path) -> RowFile:
    """Look at the file's kind and header. Raises ConfigError for what cannot be read at all."""
    kind = FORMATS.get(path.suffix.lower())
    if kind is None:
        raise ConfigError(
            f"Files of the kind {path.suffix or 'without a suffix'} cannot be read.",
            where=str(path),
            next_step=f"Name a file ending in {', '.join(FORMATS)}.",
        )
    try:
        if kind == "csv":
            return RowFile(path, kind, _csv_header(path))
        if kind == "parquet":
            metadata = pq.ParquetFile(path)
            return RowFile(path, kind, tuple(metadata.schema_arrow.names), metadata.metadata.num_rows)
        path.open("rb").close()
    except (OSError, csv.Error, pa.ArrowInvalid) as error:
        raise ConfigError(
            f"The file cannot be read ({error}).", where=str(path), next_step="Check the path and the file's format."
        ) from None
    return RowFile(path, kind, None)


def _csv_header(path: Path) -> tuple[str, ...]:
    try:
        with _open_csv(path) as file:
            header = tuple(next(csv.reader(file), ()))
    except csv.Error as error:
        raise _broken(path, 1, str(error)) from None
    if not _is_utf8(list(header)):
        raise _broken(path, 1, "it is not UTF-8")
    twice = [name for name, count in Counter(header).items() if count > 1]
    if not header or twice:
        fault = f"names {', '.join(twice)} twice" if twice else "is empty"
        raise ConfigError(
            f"The header {fault}.", where=f"{path}, line 1", next_step="Give each column one name in the first line."
        )
    return header


def _csv_rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    # Python's reader rather than Arrow's: it knows the line of each row, and keeps quotes that span lines.
    line = 1
    try:
        with _open_csv(path) as file:
            reader = csv.reader(file, strict=True)
            header = next(reader)
            line = reader.line_num + 1
            for cells in reader:
                if cells and len(cells) != len(header):
                    raise _broken(path, line, f"it has {len(cells)} cells, the header {len(header)}")
                if not _is_utf8(cells):
                    raise _broken(path, line, "it is not UTF-8")
                if cells:
                    yield line, dict(zip(header, cells, strict=True))
                line = reader.line_num + 1
    except csv.Error as error:
        raise _broken(path, line, str(error)) from None


def _open_csv(path: Path) -> TextIO:
    # Decoded in blocks: a strict decoder would fail far ahead of the row that is at fault.
    return path.open(encoding="utf-8-sig", errors="surrogateescape", newline="")


def _is_utf8(cells: list[str]) -> bool:
    text = "".join(cells)
    return text.isascii() or not any("\udc80" <= character <= "\udcff" for character in text)


def _broken(path: Path, line: int, fault: str) -> UnreadableRowError:
    return UnreadableRowError(
        f"This row of the CSV file cannot be read: {fault}.",
        where=f"{path.name}, line {line}",
        next_step="Correct its commas, quotes or encoding (UTF-8).",
    )


def _json_rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                row = orjson.loads(line)
            except orjson.JSONDecodeError as error:
                row = str(error)
            if not isinstance(row, dict):
                raise UnreadableRowError(
                    f"This line is not a JSON object ({row if isinstance(row, str) else type(row).__name__}).",
                    where=f"{path.name}, line {number}",
                    next_step="Write one JSON object per line.",
                )
            yield number, row


def _parquet_rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    number = 0
    try:
        for batch in pq.ParquetFile(path).iter_batches(batch_size=_BATCH_ROWS):
            for row in batch.to_pylist():
                number += 1
                yield number, row
    except (pa.ArrowInvalid, OSError) as error:
        raise UnreadableRowError(
            f"The Parquet file breaks off: {error}",
            where=f"{path.name}, after row {number}",
            next_step="Write the file again.",
        ) from None
