"""The local Snowflake: fakesnow's server in our process, with what it lacks for Firn's statements and guarantees.

For the embedded stack and tests only; product code never imports it. docs/local-snowflake.md says what differs from
the real Snowflake. Start it with `python -m firn_local.snowflake --port P --data-dir DIR`.
"""
