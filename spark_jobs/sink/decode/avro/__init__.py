"""Avro: framed with a schema id, and object containers that carry their schema."""
