"""Clients of the weather: this host's own, or a weather service over HTTP.

Names are imported when they are used: a sensor daemon needs the HTTP client and neither store nor forecasters.
"""

from nws.base.lazy import lazy_names

__getattr__, __dir__ = lazy_names(__name__, __file__)
