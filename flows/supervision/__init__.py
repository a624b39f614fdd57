"""A sink's driver and its supervisor, put together for whoever starts them: a flow, or the command line."""
