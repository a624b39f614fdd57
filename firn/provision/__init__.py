"""What Firn needs outside itself, made or checked: topic, subject, Snowflake login and its objects. Idempotent.

Not for tables (the sink makes them) and not for infrastructure (infra/). What exists with other values is reported and
left alone, unless the caller says `apply`; partitions only ever grow.
"""
