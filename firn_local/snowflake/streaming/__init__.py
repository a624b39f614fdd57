"""Snowpipe Streaming (high-performance architecture) over the local Snowflake's tables. Knows no session of a client.

What the official SDK sends and accepts decides the paths and bodies; docs/local-snowflake.md says which behaviour of
the service behind them is documented and which is assumed.
"""
