"""First-level fields of a batch of records as columns, as decoders have them before they print JSON.

A table with typed columns can take such a column without parsing the JSON again (`spark_jobs.sink.columns.direct`). Not
for what a column of the table takes, nor for fields whose JSON only a record's own value tells.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.sink.decode.base.texts import Parts, escaped, join


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

    @cached_property
    def parts(self) -> Parts:
        """The JSON text per record, `null` where the field is, as parts to join."""
        parts: Parts = ['"', escaped(self.texts), '"'] if self.is_string else [self.texts]
        return parts if not self.values.null_count else [pc.fill_null(join(parts), "null")]

    @property
    def json(self) -> pa.StringArray:
        """The JSON text per record; `null` where the field is."""
        return join(self.parts)


def as_text(values: pa.Array) -> pa.StringArray:
    """Integers and booleans in JSON."""
    return values.cast(pa.string())
