"""Channels of Snowpipe Streaming: their names and tokens, the client that opens them, and what the ledger remembers."""
