"""Lines of progress, the cuts made of them, and settings out of their range."""

import json

import numpy as np
import pytest
from hypothesis import given, strategies as st

from apples.errors import ConfigError
from apples.model.progress import parse_progress
from apples.planning.adapting.repartitioning import balanced, busiest_link_rows, moved_rows, slowest
from apples.planning.adapting.settings import AdaptSettings, HostSettings, SlabSettings
from tests.transcripts import recorded

LINE = {
    "version": 1,
    "iteration": 40,
    "left": 60.0,
    "iterations": 10,
    "seconds": 2.5,
    "rows": [3, 5],
    "compute_s": [0.3, 1.0],
    "exchange_s": [0.1, 0.1],
    "reduce_s": [0.9, 0.2],
    "moves": 1,
    "moved_s": 0.5,
    "refused": None,
}


def test_line_says_what_a_row_costs_and_an_iteration_takes():
    told = parse_progress(json.dumps(LINE))
    assert told.row_s == pytest.approx((0.01, 0.02))
    assert told.iteration_s == pytest.approx(0.2)
    assert (told.left, told.moves, told.moved_s, told.refused) == (60.0, 1, 0.5, None)


@recorded("apples/planning/unsound_progress.txt", "change")
def test_what_is_no_sound_line_is_passed_over(answered, change):
    answered(repr(parse_progress(json.dumps(LINE | change))))


@pytest.mark.parametrize("line", ["", "{", "[]", "1", b"\xff"])
def test_so_is_what_is_no_line_at_all(line):
    assert parse_progress(line) is None


@given(st.lists(st.floats(1e-5, 1e-2), min_size=1, max_size=8), st.integers(20, 300))
def test_balanced_cut_is_better_than_any_neighbour(row_s, size):
    row_s = np.array(row_s)
    rows = balanced(row_s, size, 1, np.full(len(row_s), np.inf))
    assert rows.sum() == size
    best = slowest(rows, row_s[None])[0]
    for giver in range(len(rows)):
        for taker in range(len(rows)):
            if giver != taker and rows[giver] > 1:
                other = rows.copy()
                other[giver] -= 1
                other[taker] += 1
                assert slowest(other, row_s[None])[0] >= best * (1 - 1e-12)


def test_what_no_limits_hold_has_no_cut():
    assert balanced(np.array([1.0, 1.0]), 10, 1, np.array([4.0, 5.0])) is None


def test_rows_that_move():
    assert moved_rows((5, 5, 5), (5, 5, 5)) == 0
    assert moved_rows((5, 5, 5), (8, 2, 5)) == 3
    assert moved_rows((5, 5, 5), (8, 5, 2)) == 6
    assert busiest_link_rows((5, 5, 5), (8, 5, 2)) == 3


def test_settings_out_of_their_range_are_all_named():
    with pytest.raises(ConfigError) as caught:
        AdaptSettings(
            slabs=SlabSettings(report_every_s=-1, least_reports=1),
            hosts=HostSettings(minimum_gain=1.5),
        )
    assert list(caught.value.problems) == [
        "slabs: report_every_s -1: expected 0 or more",
        "slabs: least_reports 1: two stretches at least can agree",
        "hosts: minimum_gain 1.5: expected a fraction of what is left, below 1",
    ]


def test_file_that_is_shipped_lists_the_defaults():
    from apples.model.config import find_config
    from nws.base.reader import load_yaml

    assert load_yaml(find_config("adaptation.yaml"), AdaptSettings) == AdaptSettings()
