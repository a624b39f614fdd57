"""Avro values to JSON text, one Arrow batch at a time.

For: Confluent-framed Avro (`0x00`, 4-byte big-endian schema id, body) as RECORD_CONTENT, with every malformed record
told apart by row and reason. Pure: Arrow in, Arrow out; the schema lookup is a callable that the caller gives.
Not for: keys, headers and RECORD_METADATA (`spark_jobs.sink.metadata`), reading Kafka, talking to a registry.

Two decoders give the same JSON (docs/decisions/0002-two-decoders.md): `reference` defines the result, `vector` is fast.
"""

from spark_jobs.sink.decode.avro import avro_decoder
from spark_jobs.sink.decode.records import BadRecord, Decoded, Decoder

__all__ = ["BadRecord", "Decoded", "Decoder", "avro_decoder"]
