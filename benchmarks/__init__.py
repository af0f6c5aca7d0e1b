"""Benchmarks that state the figures of the documentation: `python -m benchmarks NAME`."""
