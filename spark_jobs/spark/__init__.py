"""Spark as the sink uses it: its session, its start, its jobs and its errors."""
