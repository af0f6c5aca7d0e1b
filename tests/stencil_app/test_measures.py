import math

import numpy as np
from hypothesis import given, strategies as st
from hypothesis.extra.numpy import arrays

from stencil_app.mesh.measures import change_of_bits, fill_noise, largest_change_bits, row_digests

finite = st.floats(-1e6, 1e6)


@given(arrays(np.float64, (2, 700), elements=finite))
def test_largest_change_is_the_maximum_norm(pair):
    assert change_of_bits(largest_change_bits(*pair)) == np.abs(pair[0] - pair[1]).max()


def test_nan_anywhere_is_not_lost():
    u = np.zeros(1000)
    u[777] = math.nan
    assert math.isnan(change_of_bits(largest_change_bits(u, np.zeros(1000))))


@given(st.integers(1, 7))
def test_digests_do_not_depend_on_the_cut(cut):
    field = np.random.default_rng(1).random((8, 3, 5))
    parts = np.concatenate([row_digests(field[:cut], 0), row_digests(field[cut:], cut)])
    assert (parts == row_digests(field, 0)).all()


def test_digests_see_one_bit_and_an_exchange_of_cells():
    field = np.random.default_rng(2).random((2, 3, 5))
    before = row_digests(field, 0)
    flipped = field.copy()
    flipped.view(np.uint64)[1, 2, 3] ^= np.uint64(1)
    swapped = field.copy()
    swapped[0, 0, 0], swapped[0, 1, 2] = field[0, 1, 2], field[0, 0, 0]
    assert (row_digests(flipped, 0) == before).tolist() == [True, False]
    assert (row_digests(swapped, 0) == before).tolist() == [False, True]


def test_noise_does_not_depend_on_the_cut():
    whole, part = np.empty((5, 2, 3)), np.empty((2, 2, 3))
    fill_noise(whole, 0)
    fill_noise(part, 2)
    assert (whole[2:4] == part).all()
    assert 0 <= whole.min() < whole.max() < 1
