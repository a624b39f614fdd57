"""Figures that docs/performance.md quotes, measured in one run on one machine. Ratios are what to read."""
