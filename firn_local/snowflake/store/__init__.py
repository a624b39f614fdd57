"""What lasts: DuckDB files of one data directory, and what DuckDB has no place for. Knows no session."""
