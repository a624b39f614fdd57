"""Method SNOWPIPE_STREAMING: rows appended to a channel for each partition, durable by the channel's token."""
