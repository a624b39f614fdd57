"""Confluent's wire format, read for a whole batch: one zero byte, four bytes of schema id (big-endian), the body.

Source: Confluent Schema Registry, "Wire format". Not for: the body.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

FRAME_BYTES = 5


@dataclass(frozen=True)
class Frames:
    """The frames of a batch, one element per row: ids and magic are 0 where there is none."""

    values: pa.BinaryArray
    lengths: npt.NDArray[np.int32]
    magic: npt.NDArray[np.uint8]
    ids: npt.NDArray[np.int32]
    tombstones: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, values: pa.BinaryArray) -> Frames:
        """Read the frames of `values`, whose offsets may start anywhere."""
        if values.type != pa.binary():
            values = values.cast(pa.binary())
        _, offset_buffer, data_buffer = values.buffers()
        count = len(values)
        offsets = np.frombuffer(offset_buffer, np.int32)[values.offset : values.offset + count + 1] if count else None
        if offsets is None or data_buffer is None:
            starts = lengths = np.zeros(count, np.int32)
        else:
            starts, lengths = offsets[:-1], np.diff(offsets)
        tombstones = values.is_null().to_numpy(zero_copy_only=False)
        data = np.frombuffer(data_buffer, np.uint8) if data_buffer else np.zeros(0, np.uint8)
        magic, ids = np.zeros(count, np.uint8), np.zeros(count, np.int32)
        some = np.flatnonzero(lengths > 0)
        magic[some] = data[starts[some]]
        long = np.flatnonzero(lengths >= FRAME_BYTES)
        octets = data[starts[long][:, None] + np.arange(1, FRAME_BYTES)]
        ids[long] = np.ascontiguousarray(octets).view(">i4").ravel()
        return cls(values, np.where(tombstones, 0, lengths), magic, ids, tombstones)

    @property
    def wrong_magic(self) -> npt.NDArray[np.bool_]:
        """Rows whose first byte is not zero."""
        rows: npt.NDArray[np.bool_] = (self.lengths > 0) & (self.magic != 0) & ~self.tombstones
        return rows

    @property
    def too_short(self) -> npt.NDArray[np.bool_]:
        """Rows that end within the frame."""
        rows: npt.NDArray[np.bool_] = (self.lengths < FRAME_BYTES) & (self.magic == 0) & ~self.tombstones
        return rows

    @property
    def framed(self) -> npt.NDArray[np.bool_]:
        """Rows that carry a schema id."""
        rows: npt.NDArray[np.bool_] = (self.lengths >= FRAME_BYTES) & (self.magic == 0) & ~self.tombstones
        return rows
