"""The store of the weather: measurements on disk, read in time order; see `store`.

Records that need numpy are loaded when used, so that commands which open no store start fast.
"""

from nws.base.lazy import lazy_names
from nws.memory.database import StoreFull as StoreFull
from nws.memory.store import (
    DAY_S as DAY_S,
    Keep as Keep,
    Memory as Memory,
    Samples as Samples,
    SeriesHistory as SeriesHistory,
    Summary as Summary,
)

__getattr__, __dir__ = lazy_names(__name__, __file__)
