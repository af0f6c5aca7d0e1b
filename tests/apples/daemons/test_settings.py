"""One file for both daemons: every mistake at once, with its line; options count more than the file."""

import dataclasses
import os
import re

import pytest

from apples.coscheduling.classes import FcsConstants
from apples.coscheduling.messagedriven import MessageDrivenConstants
from apples.daemons.paths import known_sockets, private_directory, serving_socket
from apples.daemons.settings import (
    FcsEntry,
    SharingSettings,
    is_group,
    load_settings,
    parse_address,
    parse_cpus,
    settings_of,
)
from apples.errors import ConfigError, SharingError
from apples.model.config import find_config
from apples.monitoring.names import check_job
from tests.transcripts import recorded


@pytest.fixture
def write(tmp_path):
    def make(text):
        path = tmp_path / "sharing.yaml"
        path.write_text(text)
        return path

    return make


def problems(path):
    with pytest.raises(ConfigError) as error:
        load_settings(path)
    return [line.removeprefix(f"{path}:") for line in str(error.value).splitlines()]


def test_shipped_file_says_the_defaults():
    shipped, built_in = load_settings(find_config("sharing")), load_settings(None)
    assert shipped == built_in
    assert built_in.constants.fcs == FcsConstants()
    assert built_in.constants.message_driven == MessageDrivenConstants()


def test_shipped_file_shows_every_key():
    text = find_config("sharing").read_text()
    for entry, indent in ((SharingSettings, "(# )?"), (FcsEntry, "  "), (MessageDrivenConstants, "  ")):
        for key in dataclasses.fields(entry):
            name = key.name.removesuffix("_s")
            assert re.search(rf"^{indent}{name}:", text, re.MULTILINE), name


@recorded("apples/daemons/multicast_groups.txt", "text")
def test_groups_of_the_networks_own_protocols_are_none_of_ours(answered, text):
    answered(str(is_group(text)))


def test_everything_that_is_wrong_is_told_at_once_with_its_line(write):
    path = write(
        "policy: gnag\nslice: 0\nmpl: 0\nlisten: 'host:99999'\nmulticast: 10.0.0.1\nfreezer: ice\n"
        "fcs:\n  spni: 100us\n"
    )
    assert problems(path) == [
        "1: policy: no policy is called 'gnag' (did you mean gang?); legal are batch, gang, spin-block, fcs, "
        "message-driven, share-by-need, uncoordinated",
        "2: slice: time must be more than 0; got 0",
        "3: mpl: should be greater than or equal to 1; got 0",
        "4: listen: address 'host:99999': ports end at 65535",
        "5: multicast: '10.0.0.1' is no multicast group; legal are 224.0.1.0 to 239.255.255.255, or null for none",
        "6: freezer: should be 'signals', 'cgroup' or 'auto'; got 'ice'",
        "8: fcs.spni: unknown key (did you mean spin?); legal keys are spin, cslots_min, dc_thresh, cs_thresh, "
        "f_thresh_share, tslots_max",
    ]


def test_constants_are_held_to_the_policies_own_ranges(write):
    path = write("fcs: {cs_thresh: 2s}\nmessage_driven:\n  share: 0.7\n")
    assert problems(path) == [
        "1: fcs: cs_thresh_s is 2, legal is less than dc_thresh_s (1)",
        "2: message_driven: share is 0.7, legal is a number above 0 and below 0.5",
    ]


def test_options_count_more_than_the_file(write, tmp_path):
    path = write("policy: gang\nslice: 50ms\nmpl: 3\nkey: its.key\nmanager: far:1\n")
    said = settings_of(path, policy="fcs", slice_text="20ms", mpl=2, multicast="none")
    assert (said.policy.name, said.slice_s, said.mpl, said.multicast) == ("fcs", 0.02, 2, None)
    assert said.constants.fcs.slice_s == 0.02
    assert said.needed_key() == tmp_path / "its.key"
    assert said.manager == ("far", 1)


def test_slice_is_the_nodes_own_where_there_is_no_manager():
    said = settings_of(None, policy="message-driven", slice_text="2s", gmet="500ms")
    assert said.constants.message_driven.slice_s == 2.0
    assert said.constants.message_driven.gmet_s == 0.5


def test_batch_has_one_row():
    assert settings_of(None, policy="batch", mpl=4).rows == 1
    assert settings_of(None, policy="gang", mpl=4).rows == 4


def test_all_options_that_are_wrong_are_told_at_once():
    with pytest.raises(ConfigError) as error:
        settings_of(None, policy="x", slice_text="soon", listen=" ", multicast="8.8.8.8", gmet="-1")
    told = str(error.value).splitlines()
    assert len(told) == 5
    assert told[0].startswith("no policy is called 'x'; legal are batch, gang")
    assert "--slice: 'soon' is not a time" in told[3]


@pytest.mark.parametrize(
    ("text", "address"),
    [("h:1", ("h", 1)), ("h", ("h", 7171)), ("[::1]:5", ("::1", 5)), ("::1", ("::1", 7171))],
)
def test_addresses(text, address):
    assert parse_address(text) == address


def test_cpus_are_ranges_of_those_that_may_be_used():
    usable = sorted(os.sched_getaffinity(0))
    assert parse_cpus(str(usable[0])) == (usable[0],)
    assert parse_cpus(",".join(map(str, usable))) == tuple(usable)
    for text, why in (
        ("x", "'x' is no CPU"),
        ("3-1", "no range of CPUs"),
        ("0-4096", "usable are"),
        ("8192", "numbers below"),
    ):
        with pytest.raises(ConfigError, match=why):
            parse_cpus(text)


def test_node_under_a_coordinated_policy_needs_its_manager_and_a_manager_such_a_policy():
    with pytest.raises(ConfigError, match="policy fcs needs a machine manager; name it with --manager"):
        settings_of(None).check_node()
    settings_of(None, policy="spin-block").check_node()
    with pytest.raises(
        ConfigError, match="policy spin-block needs no manager; legal with one are: batch, gang"
    ):
        settings_of(None, policy="spin-block").check_manager()
    with pytest.raises(ConfigError, match="no key file"):
        settings_of(None).needed_key()


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "ü", "x" * 65])
def test_names_are_letters_digits_and_a_little_more(name):
    with pytest.raises(ConfigError, match="expected 1 to 64 letters"):
        check_job(name, what="job")


def test_sockets_stand_where_only_their_user_can_put_any(tmp_path, monkeypatch):
    monkeypatch.delenv("APPLES_NODE_SOCKET", raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    path = serving_socket("alpha")
    assert path == tmp_path / f"apples-{os.getuid()}" / "node-alpha.sock"
    assert private_directory(path.parent).stat().st_mode & 0o777 == 0o700
    before = os.umask(0o022)
    reached = private_directory(tmp_path / "reached", all_users=True)
    os.umask(before)
    assert reached.stat().st_mode & 0o777 == 0o755
    for mode in (0o777, 0o1777, 0o720):
        path.parent.chmod(mode)
        with pytest.raises(SharingError, match=f"others could put files of theirs there .* mode {mode:04o}"):
            private_directory(path.parent)


def test_environment_names_the_socket(tmp_path, monkeypatch):
    monkeypatch.setenv("APPLES_NODE_SOCKET", str(tmp_path / "s"))
    assert known_sockets() == [tmp_path / "s"]
    assert serving_socket("alpha") == tmp_path / "s"


def test_path_that_no_socket_can_have_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"longer than a socket's path may be \(107 bytes\)"):
        serving_socket("alpha", tmp_path / ("x" * 100))
