"""Network Weather Service: measure CPU, memory and network of hosts, keep the values, forecast them.

It does not depend on a scheduler. The public names, imported when they are first used:

>>> import nws
>>> series = nws.Series.parse("cpu.new@alpha")
>>> series.host, series.resource.unit
('alpha', 'CPU')

`docs/python-api.md` has an example.
"""

from nws.base.lazy import lazy_names

__getattr__, __dir__ = lazy_names(__name__, __file__)
