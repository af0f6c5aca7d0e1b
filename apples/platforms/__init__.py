"""Platforms: where a run can take place, with its hosts, forecasts, benchmarks and launcher."""
