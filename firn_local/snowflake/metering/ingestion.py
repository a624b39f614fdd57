"""How many bytes of rows Snowpipe Streaming bills: those of their values, uncompressed, and not the names of fields.

Source: "Snowpipe Streaming high-performance architecture: Understand your costs" in Snowflake's documentation. The rate
is in its Service Consumption Table.
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

CREDITS_PER_GB = 0.0037
GB = 1000**3


def size_of_values(row: Any) -> int:
    """Bytes of a row's values, whatever is nested in it: texts as they are, the others as JSON has them."""
    if isinstance(row, dict):
        return sum(size_of_values(each) for each in row.values())
    if isinstance(row, list):
        return sum(size_of_values(each) for each in row)
    return len((row if isinstance(row, str) else json.dumps(row)).encode())


def size_of_lines(lines: pa.LargeStringArray) -> int:
    """The same of rows as JSON texts, estimated: the share of values in the first row counts for all of them."""
    total = int(pc.sum(pc.binary_length(lines)).as_py() or 0)
    if not total:
        return 0
    first = lines[0].as_py() or ""
    try:
        share = size_of_values(json.loads(first)) / len(first.encode())
    except ValueError:  # a row that is refused: it was sent all the same
        share = 1.0
    return round(total * share)
