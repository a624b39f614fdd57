"""What is known of a record that cannot become a row: where it stands, why, and the reasons that there are. No logic.

Not for finding such records (`decode`, `columns`), nor for what becomes of them (`dead_letters`).
"""

from __future__ import annotations

from dataclasses import dataclass

WRONG_MAGIC = "wrong_magic"
TOO_SHORT = "too_short"
UNKNOWN_SCHEMA_ID = "unknown_schema_id"
NOT_LOOKED_UP = "not_looked_up"  # nobody knows yet whether it is bad: the next batch asks the registry
INVALID_SCHEMA = "invalid_schema"
MALFORMED_AVRO = "malformed_avro"
TRAILING_BYTES = "trailing_bytes"
INVALID_UTF8 = "invalid_utf8"
INVALID_JSON = "invalid_json"
MALFORMED_CONTAINER = "malformed_container"
MALFORMED_PROTOBUF = "malformed_protobuf"
SCHEMA_MISMATCH = "schema_mismatch"  # well-formed, and not what its schema says
TOO_LARGE = "too_large"  # its JSON passes what one record may take
UNREADABLE_HEADER = "unreadable_header"  # the name of a header is not UTF-8
WRONG_SIZE = "wrong_size"  # a number converter met another number of bytes
REJECTED = "rejected_by_snowflake"  # a row that a channel refused, after its record was converted
# A record that is well-formed, and not for the columns of its table:
NOT_AN_OBJECT = "not_an_object"
UNKNOWN_FIELD = "unknown_field"
TOO_MANY_COLUMNS = "too_many_columns"
UNFITTING_VALUE = "unfitting_value"
MISSING_VALUE = "missing_value"
AMBIGUOUS_FIELD = "ambiguous_field"
OF_THE_TABLE = frozenset({UNKNOWN_FIELD, TOO_MANY_COLUMNS, UNFITTING_VALUE, MISSING_VALUE, AMBIGUOUS_FIELD})
"""Reasons that another table would not have given."""


@dataclass(frozen=True)
class BadRecord:
    """A record that cannot become a row: its row in the batch, a machine word, what was found, and in which part."""

    row: int
    reason: str
    detail: str
    in_key: bool = False
