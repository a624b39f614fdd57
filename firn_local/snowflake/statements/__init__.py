"""Families of statements, a module each. None knows another one, and the engine knows none."""
