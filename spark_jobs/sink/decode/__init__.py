"""Keys and values of Kafka records to JSON text, one Arrow batch at a time; `converters` chooses the format.

Every format is a `Decoder` that tells each malformed record apart by row and reason (`records`). Pure: Arrow in, Arrow
out; the schema lookup is a callable that the caller gives. Framed formats share `decoder` (Avro, JSON Schema,
Protobuf), the others `rows` or whole columns.
Not for: headers and RECORD_METADATA (`spark_jobs.sink.metadata.record_metadata`), reading Kafka, talking to a registry.

Why text, and why Avro has two decoders: docs/decisions/0004-converters-give-json-text.md and 0002-two-decoders.md.
"""

from spark_jobs.sink.decode.avro import avro_decoder
from spark_jobs.sink.decode.records import Decoded, Decoder
from spark_jobs.sink.values.bad_records import BadRecord

__all__ = ["BadRecord", "Decoded", "Decoder", "avro_decoder"]
