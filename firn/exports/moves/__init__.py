"""Moves: one Snowflake transaction that takes changes out of a source and into its outbox, numbered in batches."""
