"""Supervision of a sink: starts its driver, watches its progress, restarts and stops it. Imports no Spark, no Prefect."""
