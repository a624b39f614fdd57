"""Snowflake changes into Kafka topics: the export job and what its tasks do."""
