"""Supervision of the embedded stack: up, down and status of all its servers, and their ports."""
