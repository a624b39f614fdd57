"""A sink's connector file: how it is read, which parameters there are, and the typed value that it becomes."""
