"""Tasks: what they are, when they are due, what became of their runs. Knows no session."""
