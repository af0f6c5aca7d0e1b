"""The store of the weather: measurements on disk, read in time order; see `store`.

Records that need numpy are loaded when used, so that commands which open no store start fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    from nws.memory.deliveries import Delivery as Delivery, Receipt as Receipt
    from nws.memory.rollups import Buckets as Buckets

__getattr__, _ = lazy_names(
    __name__, {"nws.memory.deliveries": "Delivery Receipt", "nws.memory.rollups": "Buckets"}
)
