"""dbt as Firn runs it: a child process, and what it reported."""
