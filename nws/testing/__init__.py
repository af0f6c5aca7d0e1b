"""Published fakes for testing users of the weather.

`InMemoryWeather` answers like the weather service (`nws.client.Weather`) in this process. `InMemoryServer` is the
service itself on a port of this machine, with everything in memory. `RecordedWeather` plays recorded measurements.
They measure nothing and leave no file behind:

>>> from nws.client import RemoteWeather
>>> from nws.series import Measurement, Series
>>> from nws.testing import InMemoryServer
>>> share = Series.parse("cpu.new@alpha")
>>> with InMemoryServer(clock=lambda: 1000.0) as server:
...     _ = server.put(Measurement(share, t, 0.75) for t in (980.0, 990.0, 1000.0))
...     with RemoteWeather(server.url) as weather:
...         forecast = weather.forecasts()[share]
>>> forecast.value, forecast.samples
(0.75, 3)
"""

from nws.base.lazy import lazy_names
from nws.testing.weather import InMemoryWeather as InMemoryWeather

__getattr__, __dir__ = lazy_names(__name__, __file__)
