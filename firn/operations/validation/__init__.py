"""Live checks of a configuration: endpoints, logins, topics, subjects, privileges."""
