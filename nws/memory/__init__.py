"""The store of the weather: measurements on disk, read in time order; see `store`.

Records that need numpy are loaded when used, so that commands which open no store start fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nws.base.lazy import lazy_names
from nws.memory.database import StoreFull
from nws.memory.store import DAY_S, Keep, Memory, Samples, SeriesHistory, Summary

if TYPE_CHECKING:
    from nws.memory.deliveries import Delivery, Receipt
    from nws.memory.rollups import Buckets

__all__ = [
    "DAY_S",
    "Buckets",
    "Delivery",
    "Keep",
    "Memory",
    "Receipt",
    "Samples",
    "SeriesHistory",
    "StoreFull",
    "Summary",
]

__getattr__ = lazy_names(
    __name__,
    {
        "Buckets": "nws.memory.rollups",
        "Delivery": "nws.memory.deliveries",
        "Receipt": "nws.memory.deliveries",
    },
)
