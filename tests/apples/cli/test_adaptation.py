"""`apples-run --adapt` as users call it: over real ranks, on the mock grid, and with options that do not fit."""

import json

import pytest

from apples.costs.store import History


@pytest.fixture
def apples_run(run):
    return lambda *words: run("apples-run", *map(str, words))


@pytest.mark.nightly
def test_real_run_that_needs_no_move_is_told_as_one(run, known, small):
    ended = run("apples-run", *small, "-n", "2", "--adapt", "slabs", "--json", state=known)
    assert ended.code == 0, ended.err
    document = json.loads(ended.out)
    assert (document["ended"], document["moves"]) == ("finished", [])


MOCK = ("2000", "--mock", "--seed", "1")


def test_mock_grid_moves_rows_and_says_every_move(apples_run, state_of_its_own):
    ended = apples_run(*MOCK, "--adapt", "slabs")
    assert ended.code == 0, ended.err
    (record,) = History(state_of_its_own / "history.db").records()
    (move, *_) = record.outcome.moves
    assert sum(move.before) == sum(move.after) == 2000
    assert move.took_s > 0
    assert move.gain_s > move.cost_s
    assert f"· {move.reason}: moving " in ended.err
    assert f"from iteration {move.iteration}, gain " in ended.err


def test_off_is_what_it_was(run, tmp_path):
    ways = ((), ("--adapt", "off"))
    documents = [
        json.loads(run("apples-run", *MOCK, *words, "--json", state=tmp_path / f"state-{len(words)}").out)
        for words in ways
    ]
    assert documents[0]["observed_s"] == documents[1]["observed_s"]
    assert documents[0]["moves"] == []


def test_settings_come_from_a_file(apples_run, tmp_path):
    file = tmp_path / "adapt.yaml"
    file.write_text("slabs: {minimum_gain: 0.9}\n")
    ended = apples_run(*MOCK, "--adapt", "slabs", "--adapt-settings", file, "--json")
    assert json.loads(ended.out)["moves"] == []
