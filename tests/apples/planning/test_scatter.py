"""How long ranks wait for each other because their times between messages vary."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apples.planning.scatter import BALANCED, mean_wait, scatter_of


@pytest.mark.parametrize("gap", [0.0, 0.5, 1.0, 2.0])
def test_the_mean_wait_is_that_of_normal_differences(gap):
    later = 3.0 * np.random.default_rng(0).standard_normal(400_000) - 3.0 * gap
    assert mean_wait(3.0, 3.0 * gap) == pytest.approx(np.maximum(later, 0).mean(), rel=0.03)


def test_ranks_that_need_equally_long_wait_longest():
    waits = [mean_wait(2.0, gap) for gap in (0.0, 0.1, 1.0, 5.0, 100.0)]
    assert waits[0] == 2.0 * BALANCED
    assert waits == sorted(waits, reverse=True)
    assert waits[-1] == 0.0 == mean_wait(0.0, 1.0)


@given(scatter=st.floats(1e-6, 1e6), part=st.floats(0.0, 0.49))
def test_the_scatter_is_found_again_from_a_wait(scatter, part):
    gap = part * scatter
    assert scatter_of(mean_wait(scatter, gap), gap) == pytest.approx(scatter, rel=1e-6)


@given(scatter=st.floats(1e-6, 1e6), part=st.floats(0.51, 30.0))
def test_a_wait_at_a_wide_gap_tells_no_scatter(scatter, part):
    assert scatter_of(mean_wait(scatter, part * scatter), part * scatter) is None


@given(wait=st.floats(1e-6, 1e6), gap=st.floats(0.0, 1e6))
def test_balanced_ranks_wait_at_most_half_the_gap_longer(wait, gap):
    scatter = scatter_of(wait, gap)
    if scatter is not None:
        assert wait * (1 - 1e-9) <= BALANCED * scatter <= (wait + gap / 2) * (1 + 1e-9)
