"""Prefect flows, one module each; the `firn` command and what Prefect shows are packages. No SQL and no bytes here."""
