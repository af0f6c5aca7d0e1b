import pytest

from stencil_app.errors import UsageError
from stencil_app.heat import HEAT
from stencil_app.settings import check
from tests.transcripts import recorded

NOTHING: dict[str, str | None] = {}


def problems(ranks=1, strays=(), **texts):
    with pytest.raises(UsageError) as caught:
        check(HEAT, {**NOTHING, **texts}, ranks=ranks, strays=list(strays))
    assert caught.value.exit_code == 2
    return list(caught.value.problems)


def test_everything_wrong_is_said_at_once(tmp_path):
    found = problems(
        ranks=2,
        strays=["unknown option --foo"],
        nx="0",
        boundary="open",
        courant="nan",
        iterations="many",
        slabs="1,-2",
        rows="3",
        checkpoint_every="5",
        output=str(tmp_path / "field.txt"),
        record_dir=__file__,
        restart=str(tmp_path / "nothing"),
    )
    assert found == [
        "unknown option --foo",
        "--nx: got '0'; legal is a whole number at least 1",
        "--boundary: got 'open'; legal is one of fixed, periodic, insulated",
        "--courant: got 'nan'; legal is a number above 0 and at most 1",
        "--iterations: got 'many'; legal is a whole number at least 0",
        "--checkpoint-every: needs --checkpoint FILE, where to write to",
        "--rows: only with --benchmark; a run takes its rows from --slabs or --size",
        f"--record-dir {__file__}: is a file; give a directory",
        f"--restart {tmp_path}/nothing: no such file; give a file that --checkpoint wrote",
        f"--output {tmp_path}/field.txt: the field is written as .npy; give a name that ends so",
        "--slabs: '-2' in '1,-2': a slab is a whole number of rows, 1 or more",
    ]


@recorded("stencil_app/slabs.txt", "ranks", "texts")
def test_slabs_must_fit_the_ranks(answered, ranks, texts):
    answered(problems(ranks, **texts))


def test_places_that_cannot_be_written_to(tmp_path):
    assert problems(size="3", checkpoint=str(tmp_path), output=str(tmp_path / "no" / "f.npy")) == [
        f"--checkpoint {tmp_path}: is a directory; give a file",
        f"--output {tmp_path}/no/f.npy: the directory {tmp_path}/no does not exist; make it first",
    ]


def test_benchmark_takes_no_run_options(tmp_path):
    found = problems(benchmark=str(tmp_path / "b.json"), size="3", tolerance="1e-3")
    assert found == [
        "--size, --tolerance: not with --benchmark; legal are --rows, "
        "--residual-every and the options of the mesh"
    ]


def test_defaults_and_even_slabs():
    settings = check(HEAT, {"size": "64", "nx": "8"}, ranks=3, strays=[])
    assert settings.physics == {"nx": 8, "ny": 256, "boundary": "fixed", "initial": "mode", "courant": 0.9}
    assert settings.slabs is not None
    assert settings.slabs.heights == (22, 21, 21)
    assert (settings.iterations, settings.residual_every, settings.tolerance) == (500, 50, None)
