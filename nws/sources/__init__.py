"""Measurements that somebody else makes already: sources that read them and speak of hosts as we do.

`nws.sources.settings` is what the user sets, `nws.sources.prometheus` reads a Prometheus server. A source keeps nothing
but what it has given already; who asks when is decided elsewhere.
"""
