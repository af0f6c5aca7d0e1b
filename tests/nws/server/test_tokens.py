"""Bearer tokens: what their files must be, and what each is worth."""

import os
import stat

import pytest

from nws.base.errors import ConfigError, UsageError
from nws.cli import main
from nws.server.tokens import Role, Tokens, create_token, fingerprint, read_token

SECRET = "correct-horse-battery"


@pytest.fixture
def token_file(tmp_path):
    def write(content=SECRET + "\n", mode=0o600, name="a.token"):
        path = tmp_path / name
        path.write_text(content)
        path.chmod(mode)
        return path

    return write


def test_token_is_one_line_of_a_private_file(token_file):
    assert read_token(token_file()) == SECRET


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o620, 0o604, 0o660])
def test_file_that_others_can_get_at_is_refused_with_the_command_that_mends_it(token_file, mode):
    path = token_file(mode=mode)
    with pytest.raises(ConfigError, match=f"mode {mode:04o}.*chmod 600 '{path}'"):
        read_token(path)


def test_file_that_only_its_owner_may_read_is_fine(token_file):
    assert read_token(token_file(mode=0o400)) == SECRET


@pytest.mark.parametrize(
    "content", ["", "short", "two words of sixteen", "a" * 513, "ünïcödé-ünïcödé!", "a\0" * 20]
)
def test_what_is_no_token_is_refused(token_file, content):
    with pytest.raises(ConfigError, match="not a token; expected one line of 16 to 512"):
        read_token(token_file(content))


def test_huge_file_is_not_read_to_its_end(token_file):
    with pytest.raises(ConfigError, match="more than 4096 bytes"):
        read_token(token_file("a" * 1_000_000))


def test_absent_file_says_how_to_make_it(tmp_path):
    with pytest.raises(ConfigError, match=f"make one with: nws token {tmp_path / 'no'}"):
        read_token(tmp_path / "no")


def test_pipe_or_a_directory_is_no_token(tmp_path):
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(ConfigError, match="it is no regular file"):
        read_token(tmp_path / "pipe")
    with pytest.raises(ConfigError, match=r"it is no regular file|Is a directory"):
        read_token(tmp_path)


def test_all_unfit_files_are_told_at_once(token_file, tmp_path):
    with pytest.raises(ConfigError) as error:
        Tokens.load({Role.READ: [token_file(mode=0o644)], Role.ADMIN: [tmp_path / "no"]})
    assert len(error.value.problems) == 2


def test_role_is_what_its_tokens_are_good_for(token_file):
    files = {
        Role.READ: [token_file("r" * 20, name="r"), token_file("both" * 5, name="b")],
        Role.WRITE: [token_file("w" * 20, name="w"), token_file("both" * 5, name="b")],
    }
    tokens = Tokens.load(files)
    assert tokens.roles("r" * 20) == {Role.READ}
    assert tokens.roles("both" * 5) == {Role.READ, Role.WRITE}
    assert tokens.roles("x" * 20) == tokens.roles(None) == tokens.roles("") == frozenset()


def test_admin_may_do_everything():
    assert Tokens.of({Role.ADMIN: [SECRET]}).roles(SECRET) == set(Role)


def test_without_any_tokens_everybody_may_do_everything():
    assert Tokens.none().roles(None) == set(Role)
    assert not Tokens.none().required


def test_token_that_is_no_text_is_unknown_and_no_error():
    assert Tokens.of({Role.READ: [SECRET]}).roles("\udcff\udcfe") == frozenset()


def test_tokens_do_not_show_in_what_is_kept_of_them():
    tokens = Tokens.of({Role.READ: [SECRET]})
    assert SECRET not in repr(tokens)
    assert SECRET not in fingerprint(SECRET)


def test_new_token_is_private_whatever_the_umask(tmp_path):
    before = os.umask(0o277)
    try:
        create_token(tmp_path / "new")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o600
    assert len(read_token(tmp_path / "new")) >= 40


def test_two_tokens_are_never_the_same(tmp_path):
    create_token(tmp_path / "a")
    create_token(tmp_path / "b")
    assert read_token(tmp_path / "a") != read_token(tmp_path / "b")


def test_file_that_is_there_is_never_overwritten(token_file):
    path = token_file()
    with pytest.raises(UsageError, match="exists and was not changed"):
        create_token(path)
    assert read_token(path) == SECRET


def test_place_where_no_file_can_be_made_is_named(tmp_path):
    with pytest.raises(UsageError, match="cannot be made: No such file or directory"):
        create_token(tmp_path / "no" / "a")


def test_command_makes_one_and_never_prints_it(tmp_path, capsys, program_signals):
    with pytest.raises(SystemExit) as end:
        main(["token", str(tmp_path / "new")])
    assert end.value.code == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert read_token(tmp_path / "new") not in err
    with pytest.raises(SystemExit) as end:
        main(["token", str(tmp_path / "new")])
    assert end.value.code == 2
