"""Columns: the fields of records in the columns of their table, and the changes that a table requires to take them.

Runs in tasks and on the driver alike; not for statements (`spark_jobs.sink.tables`).
"""
