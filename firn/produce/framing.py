"""The formats of values by name, and the wire format of framed values: 0x00, the schema id in 4 bytes, the body.

Not for what the body is (`value_formats`).

https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/index.html#wire-format
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

FormatName: TypeAlias = Literal["avro", "json", "json-schema", "protobuf"]


def framed(schema_id: int, write: Callable[[io.BytesIO, Any], Any]) -> Callable[[Any], bytes]:
    """A function from a value to its framed bytes; `write` writes the body of a value into a buffer."""
    prefix = b"\x00" + schema_id.to_bytes(4, "big")

    def encode(value: Any) -> bytes:
        buffer = io.BytesIO()
        buffer.write(prefix)
        write(buffer, value)
        return buffer.getvalue()

    return encode
