"""AppLeS agent: from a problem size to a finished, explained MPI run on shared hosts.

The public names, imported when they are first used:

>>> import apples
>>> planned = apples.plan(1000, app="pmhd3d", grid="centurion")
>>> len(planned.plan.hosts), f"{planned.plan.predicted_s:.0f} s"
(10, '50 s')

`docs/python-api.md` has an example of each.
"""

from nws.base.lazy import lazy_names

__getattr__, __dir__ = lazy_names(__name__, __file__)
