"""Changes on their way out of Snowflake: sources, the outbox, who may move them, and what became of them."""
