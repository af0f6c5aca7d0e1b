"""The weather service without its network: name server, memory and forecaster behind one object.

`core.WeatherService` is the entry point, `config` the settings, `records` its arguments and return values,
`parsing` the conversion of JSON documents to records. Behind them: `nameserver` and `directory` (hosts, keys,
leases), `scheduling` (which host probes which, and when), `ingestion` (batches into the store), `catalogue` (series
by number), `forecaster` (one battery per series, saved over restarts), `queries`, `snapshot`, `samples`, `plotting`
and `events`. No module listens, uses HTTP or reads a clock directly.
"""
