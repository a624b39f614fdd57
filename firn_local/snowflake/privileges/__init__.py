"""Who holds which privilege, what a statement needs, and refusing it. Knows no family of statements."""
