import math
import os
import signal

import numpy as np
import pytest

from stencil_app.errors import CheckpointError
from stencil_app.mesh.decomposition import even
from stencil_app.mesh.slab import Slab
from stencil_app.running.runtime import Controls, State, StopRequest, begin, iterate
from stencil_app.running.timing import Stopwatch


@pytest.fixture
def advance(alone):
    def run(problem, restart=None, stop=None, **controls):
        slab = Slab(problem, even(problem.size, 1), alone)
        state = begin(slab, restart)
        watch = Stopwatch(0.0)
        settings = Controls(**{"iterations": 20, "residual_every": 5, **controls})
        iterate(slab, state, settings, watch=watch, stop=stop or StopRequest())
        return slab, state, watch

    return run


def test_iteration_is_timed_and_the_last_takes_a_residual(advance, heat):
    _, state, watch = advance(heat(), iterations=7, residual_every=100)
    assert state.iteration == 7
    assert state.residual > 0
    assert len(watch.compute) == len(watch.exchange) == len(watch.reduce) == 7


def test_residual_is_the_change_of_the_last_iteration(advance, heat):
    before, _, _ = advance(heat(initial="random"), iterations=9)
    after, state, _ = advance(heat(initial="random"), iterations=10)
    assert state.residual == np.abs(after.interior - before.interior).max()


def test_run_stops_at_the_first_residual_under_the_tolerance(advance, heat):
    _, loose, _ = advance(heat(), iterations=1000, tolerance=1e-3)
    assert loose.iteration % 5 == 0
    assert loose.residual <= 1e-3
    _, before, _ = advance(heat(), iterations=loose.iteration - 5)
    assert before.residual > 1e-3


def test_nothing_to_do_leaves_no_residual(advance, heat):
    _, state, _ = advance(heat(), iterations=0)
    assert math.isnan(state.residual)


def test_signal_ends_the_run_after_one_more_iteration_with_a_checkpoint(advance, heat, tmp_path):
    stop = StopRequest()
    stop.code = signal.SIGTERM
    path = tmp_path / "run.ck"
    _, state, _ = advance(heat(), stop=stop, checkpoint=path)
    assert (state.iteration, state.signal) == (1, signal.SIGTERM)
    unbroken, _, _ = advance(heat())
    resumed, state, _ = advance(heat(), restart=path)
    assert state.iteration == 20
    assert (resumed.interior == unbroken.interior).all()


def test_checkpoints_are_written_when_due_and_at_the_end(advance, heat, tmp_path, monkeypatch):
    written = []
    from stencil_app.running import runtime

    monkeypatch.setattr(runtime, "save", lambda slab, state, path: written.append(state.iteration))
    advance(heat(), checkpoint=tmp_path / "c", checkpoint_every=8)
    assert written == [8, 16, 20]
    written.clear()
    advance(heat(), checkpoint=tmp_path / "c", checkpoint_every=10)
    assert written == [10, 20]


def test_restart_from_another_run_is_refused(advance, heat, jacobi, tmp_path):
    path = tmp_path / "run.ck"
    advance(heat(), checkpoint=path)
    with pytest.raises(CheckpointError, match="boundary is fixed in the file and periodic in this run"):
        advance(heat(boundary="periodic"), restart=path)
    with pytest.raises(CheckpointError, match="written by heat, this run is jacobi2d"):
        advance(jacobi(), restart=path)


def test_signal_is_only_noted():
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        stop = StopRequest().listen()
        assert stop.code == 0
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.code == signal.SIGTERM
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def test_state_says_nothing_before_the_first_residual():
    assert math.isnan(State().residual)
