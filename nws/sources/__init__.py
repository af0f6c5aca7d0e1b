"""Measurements by other monitors: sources that read them and name hosts as we do.

`nws.sources.prometheussettings` holds the user's settings, `nws.sources.prometheus` reads a Prometheus server. A source
remembers only the samples it has returned already; the times of reading are decided elsewhere.
"""
