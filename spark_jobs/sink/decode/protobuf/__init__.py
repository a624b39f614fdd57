"""Protobuf, framed with a schema id."""
