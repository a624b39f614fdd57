"""Snowflake's functions where DuckDB's or fakesnow's differ: trees rewritten, and the macros they call."""
