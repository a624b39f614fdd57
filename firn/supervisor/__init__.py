"""Supervision of a job: starts its driver, watches its progress, restarts and stops it. Without Spark and Prefect."""
