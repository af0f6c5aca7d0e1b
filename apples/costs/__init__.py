"""Learning from finished runs: history, benchmarks, and the corrections fitted to them."""
