"""Documents as JSON: columns by orjson, which is fast with numpy's arrays, everything else by msgspec. NaN is null."""

from typing import Any

import msgspec
import numpy as np
import orjson


def _plain(value: Any) -> Any:
    """Return a value that msgspec does not know in a form that it knows."""
    if isinstance(value, np.ndarray):
        return msgspec.Raw(orjson.dumps(np.ascontiguousarray(value), option=orjson.OPT_SERIALIZE_NUMPY))
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} in a document")


#: Return a document of records, plain values and numpy arrays as JSON in UTF-8.
encode = msgspec.json.Encoder(enc_hook=_plain).encode
