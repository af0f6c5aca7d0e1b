"""What templates say of checkpoints: how runs keep them, what they hold, and whose they are."""

import subprocess

import pytest

from apples import applications
from apples.applications.catalogue import known_by_model
from apples.errors import ConfigError
from apples.model.template import Checkpointing, Workload

SMALL = {
    "heat": {"nx": "8", "ny": "8", "iterations": "6"},
    "jacobi2d": {"nx": "8", "iterations": "6"},
    "mhd3d": {"nx": "8", "ny": "8", "iterations": "6"},
}


def run(name, settings, keep, rows=(16,)):
    command = applications.get(name).start(rows, keep.file.parent / "records", settings, keep=keep).command
    return subprocess.run(command, capture_output=True, text=True, check=False)


#: Those of jacobi2d are of the same kind as heat's.
CODES = ["heat", pytest.param("jacobi2d", marks=pytest.mark.nightly), "mhd3d"]


@pytest.fixture(scope="module", params=CODES)
def kept(request, tmp_path_factory):
    """An application, its options, and a checkpoint of one of its runs."""
    file = tmp_path_factory.mktemp(request.param) / "run.ckpt"
    done = run(request.param, {**SMALL[request.param], "iterations": "4"}, Checkpointing(file=file, every=4))
    assert done.returncode == 0, done.stderr
    return request.param, file


def test_checkpoint_tells_how_far_its_run_came(kept):
    name, file = kept
    template = applications.get(name)
    assert template.checkpoint.iterations_in(file, 16, SMALL[name], True) == 4
    # header, digests and the ghosts that memory holds are all that is between
    assert file.stat().st_size < 2 * template.checkpoint.size_bytes(16, SMALL[name]) + 8192


def test_run_goes_on_from_it_to_the_same_answer(kept, tmp_path):
    name, file = kept
    own = tmp_path / "own.ckpt"
    own.write_bytes(file.read_bytes())
    resumed = run(name, SMALL[name], Checkpointing(file=own, every=2, restart=True))
    whole = run(name, SMALL[name], Checkpointing(file=tmp_path / "whole.ckpt"))
    assert resumed.returncode == 0, resumed.stderr
    assert resumed.stdout == whole.stdout


def test_of_another_run(kept):
    name, file = kept
    template = applications.get(name)
    with pytest.raises(
        ConfigError, match=r"^--checkpoint .*run\.ckpt: (size|nz) is 16 in the file and 20 in this"
    ):
        template.checkpoint.iterations_in(file, 20, SMALL[name], False)
    with pytest.raises(ConfigError, match=r"nx is 8 in the file and 9 in this run; give -s nx=8"):
        template.checkpoint.iterations_in(file, 16, {**SMALL[name], "nx": "9"}, False)
    other = "heat" if name != "heat" else "jacobi2d"
    with pytest.raises(ConfigError, match=f"written by {name.removesuffix('3d')}, this run is {other}"):
        applications.get(other).checkpoint.iterations_in(file, 16, SMALL[other], False)


def test_already_past_the_end(kept):
    name, file = kept
    template = applications.get(name)
    with pytest.raises(
        ConfigError, match="is at iteration 4 already and the run ends at 3; give -s iterations=4"
    ):
        template.checkpoint.iterations_in(file, 16, {**SMALL[name], "iterations": "3"}, False)


@pytest.mark.covering("kept", "spoil")
@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda data: b"nonsense" + data[8:], "not a checkpoint; give a file that --checkpoint wrote"),
        (lambda data: data[:-9], "truncated: .* use an older checkpoint or start afresh"),
        (lambda data: data[:24] + b"?" + data[25:], "its header is damaged; .* afresh without --resume"),
        (
            lambda data: data[:5000] + b"?" + data[5001:],
            "the checksum of row [0-9]+ does not match: .* --resume",
        ),
    ],
)
def test_damaged(kept, tmp_path, spoil, said):
    name, file = kept
    bad = tmp_path / "bad.ckpt"
    bad.write_bytes(spoil(file.read_bytes()))
    with pytest.raises(ConfigError, match=said):
        applications.get(name).checkpoint.iterations_in(bad, 16, SMALL[name], True)


def test_only_the_agent_says_where_to_go_on_from():
    with pytest.raises(ConfigError, match="unknown option 'restart'"):
        applications.get("heat").check({"restart": "run.ckpt"})


def test_application_known_by_its_model_has_no_files(tmp_path):
    known = known_by_model(
        "pmhd3d", lambda size: Workload(application="pmhd3d", size=size, bytes_per_row=8.0), "x"
    )
    assert known.checkpoint.size_bytes(10, {}) == 40.0
    with pytest.raises(ConfigError, match="has no checkpoints to read"):
        known.checkpoint.iterations_in(tmp_path / "a", 10, {}, True)
