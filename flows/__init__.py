"""What runs when: Prefect flows, their deployments, and the `firn` command. No SQL and no bytes in here."""
