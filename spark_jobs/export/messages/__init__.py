"""Rows of an outbox as Kafka messages: schemas, values, envelopes, keys, headers. Pure but for the registry."""
