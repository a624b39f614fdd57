"""Typed columns: the fields of a record fitted to the columns of its table, and what a table would need to take them.

Runs in tasks and on the driver alike; not for statements (`tables`, `evolution`, `copy_into`).
"""
