from nws.testing.recorded import RecordedWeather as RecordedWeather
from nws.testing.servicestub import InMemoryServer as InMemoryServer
from nws.testing.weather import InMemoryWeather as InMemoryWeather
