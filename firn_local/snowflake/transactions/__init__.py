"""READ COMMITTED and table locks over DuckDB. Knows no statement."""
