"""Frames out of bytes in any pieces, after whatever a login shell has printed."""

import pytest
from hypothesis import given, strategies as st

from apples.hosts.frames import LONGEST_GREETING, PREAMBLE, Unframer, frame

FRAMES = st.lists(st.tuples(st.sampled_from([b"B", b"O", b"T"]), st.binary(max_size=200)), max_size=8)


@given(FRAMES, st.binary(max_size=50), st.integers(1, 40))
def test_frames_arrive_whole_whatever_the_pieces(frames, noise, piece):
    text = noise.replace(b"APPLES", b"") + PREAMBLE + b"".join(frame(*one) for one in frames)
    unframer = Unframer(preamble=True)
    found = []
    for start in range(0, len(text), piece):
        found += unframer.feed(text[start : start + piece])
    assert found == frames
    assert unframer.greeted


def test_unframer_bytes_of_a_shell_are_quoted():
    with pytest.raises(ValueError, match="it printed b'key"):
        Unframer().feed(b"keychain 1")
    unframer = Unframer(preamble=True)
    assert unframer.feed(b"Welcome\n") == []
    assert unframer.noise == b"Welcome\n"
    with pytest.raises(ValueError, match="it printed b'Wel"):
        unframer.feed(b"x" * LONGEST_GREETING)
