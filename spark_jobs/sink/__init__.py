"""The sink: Kafka topics into Snowflake tables, exactly once. ARCHITECTURE.md draws the path of a record."""
