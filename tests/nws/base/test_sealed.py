"""Objects with a checksum: every damage is noticed, or leaves the object as it was."""

import json

import pytest
from hypothesis import given, strategies as st

from nws.base.sealed import seal, unseal

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text(), VALUES, min_size=1, max_size=4)


@given(OBJECTS)
def test_sealed_object_is_json_and_comes_back(document):
    text = seal(document)
    assert isinstance(json.loads(text), dict)
    if "crc32" not in document:
        assert unseal(text.encode("utf-8", "surrogatepass")) == document


@given(document=st.dictionaries(st.sampled_from("abc"), VALUES, min_size=1), data=st.data())
def test_one_changed_byte_never_changes_the_object(document, data):
    sealed = bytearray(seal(document).encode())
    at = data.draw(st.integers(0, len(sealed) - 1))
    sealed[at] ^= data.draw(st.integers(1, 255))
    try:
        found = unseal(bytes(sealed))
    except ValueError:
        return
    found.pop("crc32", None)
    # a damaged seal that is none any more leaves the content as it was
    assert {key: found[key] for key in document} == document


def test_number_that_json_lacks_is_refused():
    with pytest.raises(ValueError, match="Out of range"):
        seal({"a": float("nan")})
