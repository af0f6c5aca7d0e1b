"""How long ranks wait for each other because their times between messages vary."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from apples.planning.jitter import BALANCED, jitter_of, mean_wait


@pytest.mark.parametrize("gap", [0.0, 0.5, 1.0, 2.0])
def test_mean_wait_is_that_of_normal_differences(gap):
    later = 3.0 * np.random.default_rng(0).standard_normal(400_000) - 3.0 * gap
    assert mean_wait(3.0, 3.0 * gap) == pytest.approx(np.maximum(later, 0).mean(), rel=0.03)


def test_ranks_that_need_equally_long_wait_longest():
    waits = [mean_wait(2.0, gap) for gap in (0.0, 0.1, 1.0, 5.0, 100.0)]
    assert waits[0] == 2.0 * BALANCED
    assert waits == sorted(waits, reverse=True)
    assert waits[-1] == 0.0 == mean_wait(0.0, 1.0)


@given(jitter=st.floats(1e-6, 1e6), part=st.floats(0.0, 0.49))
def test_jitter_is_found_again_from_a_wait(jitter, part):
    gap = part * jitter
    assert jitter_of(mean_wait(jitter, gap), gap) == pytest.approx(jitter, rel=1e-6)


@given(jitter=st.floats(1e-6, 1e6), part=st.floats(0.51, 30.0))
def test_wait_at_a_wide_gap_shows_no_jitter(jitter, part):
    assert jitter_of(mean_wait(jitter, part * jitter), part * jitter) is None


@given(wait=st.floats(1e-6, 1e6), gap=st.floats(0.0, 1e6))
def test_jitter_explains_the_wait(wait, gap):
    jitter = jitter_of(wait, gap)
    if jitter is not None:
        assert mean_wait(jitter, gap) == pytest.approx(wait, rel=1e-6)
