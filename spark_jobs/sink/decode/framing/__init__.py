"""Confluent's wire format: a schema id in front of each value."""
