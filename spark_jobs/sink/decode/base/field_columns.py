"""First-level fields of a batch of records as columns, as decoders have them before they print JSON.

A table with typed columns can take such a column without parsing the JSON again (`spark_jobs.sink.columns.direct`). Not
for what a column of the table takes, nor for their JSON (`texts`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa


@dataclass(frozen=True)
class FieldColumn:
    """One field of n records. values: null where the field is null. print: the JSON of `values` that are no strings.

    Strings are the characters of JSON strings. `print` gives n texts, null where a value is.
    """

    values: pa.Array
    print: Callable[[pa.Array], pa.StringArray] | None = None

    @property
    def is_string(self) -> bool:
        """Whether the field's JSON is a string with just the characters of `values`."""
        return self.print is None

    @cached_property
    def texts(self) -> pa.StringArray:
        """The characters of strings, the JSON text of other values; null where a value is."""
        return self.values if self.print is None else self.print(self.values)


@dataclass(frozen=True)
class RecordFields:
    """All first-level fields of n records, all of one type of one schema, in the order of their JSON.

    content: the JSON text of the records, of which these are the fields: whoever gives other texts has none of them.
    columns: by name; the JSON text per record where a field has no column, `null` where it is null.
    """

    content: pa.StringArray
    columns: Mapping[str, FieldColumn | pa.StringArray]
