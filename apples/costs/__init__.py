"""Prices of a run: evidence (benchmarks and finished runs, read once), costs as functions of it, and their store."""
