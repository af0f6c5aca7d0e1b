"""Objects with a checksum: every damage is noticed, or leaves the object as it was."""

import hashlib
import json
import stat
import subprocess
import sys

import pytest
from hypothesis import given, strategies as st

from nws.base.sealed import fingerprints, seal, unseal

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


@pytest.mark.parametrize("before", [None, b"", b"half"])
def test_fingerprints_depend_on_a_private_key(tmp_path, monkeypatch, before):
    monkeypatch.setattr("nws.base.sealed._ATTEMPTS", 2)
    values, plain = [], hashlib.sha256(b"TOKEN=secret").hexdigest()[:32]
    for name in ("one", "other"):
        state = tmp_path / name
        state.mkdir()
        if before is not None:
            (state / "fingerprints.key").write_bytes(before)
        monkeypatch.setenv("APPLES_STATE", str(state))
        values.append(fingerprints({"TOKEN": "secret"})["TOKEN"])
        assert stat.S_IMODE((state / "fingerprints.key").stat().st_mode) & 0o077 == 0
        code = "from nws.base.sealed import fingerprint; print(fingerprint('TOKEN=secret'))"
        again = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert again.stdout.strip() == values[-1]
    assert len({plain, *values}) == 3
