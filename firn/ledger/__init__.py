"""Positions, owner and desired state of each sink, and its schema changes: Firn's tables beside the target tables."""
