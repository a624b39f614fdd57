"""A session and how a statement of it runs, whatever family it is of."""
