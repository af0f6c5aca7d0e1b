"""The store of the weather: measurements on disk, read in time order; see `store`.

Its names are loaded when used, so that commands which open no store start fast.
"""

from nws.base.lazy import lazy_names

__getattr__, __dir__ = lazy_names(__name__, __file__)
