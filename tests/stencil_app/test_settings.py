from stencil_app.errors import UsageError
from stencil_app.heat import HEAT
from stencil_app.settings import check
from tests.transcripts import recorded


@recorded("stencil_app/settings.txt", "ranks", "strays", "texts")
def test_settings_and_their_problems_are_as_recorded(tmp_path, monkeypatch, answered, ranks, strays, texts):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    try:
        settings = check(HEAT, texts, ranks=ranks, strays=strays)
    except UsageError as refusal:
        answered([f"exit code {refusal.exit_code}", *refusal.problems])
    else:
        numbers = (settings.iterations, settings.residual_every, settings.tolerance)
        answered(f"{settings.slabs.heights}, {numbers}: {settings.physics}")
