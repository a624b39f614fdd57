"""How wide each column of a table is: narrow columns first, addresses whole, and no word goes on in the next line.

Not for what a table shows (`flows.cli.console.print_rows`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.cells import cell_len

_FRAME = 3  # what Rich draws around the text of a column: its padding and one line; one more line ends the table
_LEAST = 4  # an ellipsis and something before it
_TEXT = 14  # what a column of sentences keeps while names and numbers take theirs: most words fit


@dataclass
class _Column:
    """need: the longest line of the column. address, text: whether a cell is an address, or has several words.

    within: the longest address among those words.
    """

    need: int
    address: bool = False
    text: bool = False
    within: int = 0
    width: int = 0

    def least(self, text: int) -> int:
        """What it keeps at least, where a column of sentences keeps `text` characters."""
        return min(self.need, max(self.within, text) if self.text else _LEAST)


def column_widths(columns: Sequence[str], rows: Iterable[Sequence[str]], width: int) -> list[int]:
    """The characters that each column has, so that the table fits in `width` where that is possible at all.

    Columns of single words take what they need before columns of sentences, which go on below word by word; among each
    the narrowest come first, and the widest share what is left. A column of addresses (see `is_address`) always has
    what it needs, because an address that is cut cannot be used.
    """
    found = [_Column(cell_len(column)) for column in columns]
    for row in rows:
        for column, cell in zip(found, row, strict=True):
            column.need = max([column.need, *map(cell_len, cell.splitlines())])
            column.address = column.address or is_address(cell)
            column.text = column.text or " " in cell
            column.within = max([column.within, *map(cell_len, filter(is_address, cell.split()))])
    if found:
        _share(found, width - _FRAME * len(columns) - 1)
    return [column.width for column in found]


def _share(columns: list[_Column], left: int) -> None:
    text = min(_TEXT, left // len(columns))
    waiting = sorted(columns, key=lambda column: (not column.address, column.text, column.need))
    while waiting:
        column = waiting.pop(0)
        alike = 1 + sum(each.text == column.text for each in waiting)
        others = sum(each.least(text) for each in waiting if each.text != column.text)
        kept = sum(each.least(text) for each in waiting)
        share = max(column.least(text), min((left - others) // alike, left - kept))
        column.width = column.need if column.address else min(column.need, share)
        left -= column.width


def is_address(cell: str) -> bool:
    """Whether a cell holds one address of a server or a file, and nothing else."""
    return ("://" in cell or cell.startswith("/")) and " " not in cell
