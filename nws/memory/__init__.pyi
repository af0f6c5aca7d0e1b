from nws.memory.database import StoreFull as StoreFull
from nws.memory.deliveries import Delivery as Delivery, Receipt as Receipt
from nws.memory.rollups import Buckets as Buckets
from nws.memory.store import (
    DAY_S as DAY_S,
    Keep as Keep,
    Memory as Memory,
    Samples as Samples,
    SeriesHistory as SeriesHistory,
    Summary as Summary,
)
