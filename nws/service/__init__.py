"""The weather service without its network: name server, memory and forecaster behind one object.

`core.WeatherService` is the way in, `config` what its user sets, `records` what it takes and gives, `parsing` how
JSON documents become records. Behind them: `directory` (hosts, keys, leases), `planning` (who probes whom, when),
`catalogue` (series by number), `forecaster` (a battery for every series, kept over restarts), `snapshot`, `samples`,
`plotting` and `events`. Nothing here listens, speaks HTTP or reads a clock of its own.
"""
