"""An export's connector file: its parameters, how they are checked, and the typed value that it becomes."""
