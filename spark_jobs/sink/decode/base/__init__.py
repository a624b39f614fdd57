"""What every format stands on: the contract with the rest of the sink, and JSON text in single values and columns."""
