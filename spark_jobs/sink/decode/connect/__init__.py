"""Kafka Connect's data model: what the formats with schemas of their own share."""
