"""Supervision of a sink: starts its driver, watches its progress, restarts and stops it. Without Spark and Prefect."""
