"""What the account would be billed for: warehouses that wake and sleep, reused results, the history of queries."""
