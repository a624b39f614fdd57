"""A sink's configuration made ready to use: its logins, its topics, its consumer group."""
