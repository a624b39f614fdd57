"""The schema registry: logging in, schemas by id, subjects, and its refusals explained."""
