"""What wrote each record of a batch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.sink.decode.base.contract import Part, Writer

_NONE = -1


class Writers:
    """The writers of n records. schema_ids: null for no schema; parts: as in `Decoded`."""

    def __init__(self, schema_ids: pa.Int32Array, parts: Sequence[Part] | None) -> None:
        if parts is None:
            encoded = pc.dictionary_encode(schema_ids)
            self.all = [Writer(each) for each in encoded.dictionary.to_pylist()]
            self._codes = pc.fill_null(encoded.indices, _NONE).to_numpy(zero_copy_only=False)
            return
        numbers: dict[Writer, int] = {}
        pairs = zip(schema_ids.to_pylist(), parts, strict=True)
        codes = [_NONE if each is None else numbers.setdefault(Writer(each, m), len(numbers)) for each, m in pairs]
        self.all, self._codes = list(numbers), np.array(codes, np.int64)

    def of(self, rows: npt.NDArray[np.int64]) -> list[Writer | None]:
        """Who wrote these rows, each once, in the order of `all`; None, at the end, for records without a schema."""
        codes = np.unique(self._codes[rows]).tolist()
        found: list[Writer | None] = [self.all[code] for code in codes if code != _NONE]
        return [*found, None] if _NONE in codes else found

    def rows_of(self, writers: Sequence[Writer]) -> pa.BooleanArray:
        """Which of the n rows these wrote."""
        wanted = [code for code, each in enumerate(self.all) if each in writers]
        return pa.array(np.isin(self._codes, wanted))
