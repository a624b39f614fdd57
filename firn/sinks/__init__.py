"""A sink's configuration resolved for use: its logins, its topics, its consumer group."""
