"""Target tables on the driver: found, made, changed, and how each of them is loaded."""
