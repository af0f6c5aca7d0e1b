"""Generated inputs for all listeners and state files, and faults injected into all daemons.

`pytest -m nightly` runs them at length. The other tests take a short pass of the same.
"""
