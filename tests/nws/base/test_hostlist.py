"""Host lists: brackets, slots, files; every problem at once and where it is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from apples.errors import ConfigError
from nws.base.hostlist import expand, fold, parse_hosts, read_hostfile
from tests.transcripts import recorded


@recorded("nws/base/host_brackets.txt", "expression")
def test_brackets_expand_in_order(answered, expression: str) -> None:
    answered(str(expand(expression)))


def test_folding_keeps_zeros_order_and_repetitions() -> None:
    assert fold(["node08", "node09", "node10", "alpha"]) == "node[08-10],alpha"
    assert fold(["n1", "n01", "n2", "n2"]) == "n[1,01,2,2]"
    assert fold(["b", "a", "b"]) == "b,a,b"
    assert fold(["solo7"]) == "solo7"
    # Slurm takes no text after a bracket
    mixed = ["n1-ib", "n2-ib", "c1.cluster", "c2.cluster", "m1", "m2"]
    assert fold(mixed, suffixes=False) == "n1-ib,n2-ib,c1.cluster,c2.cluster,m[1-2]"


names = st.lists(st.from_regex(r"[a-z]{0,2}[0-9]{1,3}([a-z.-]{0,2}[0-9a-z])?", fullmatch=True), min_size=1)


@given(names)
def test_fold_and_expand_undo_each_other(hosts: list[str]) -> None:
    assert expand(fold(hosts)) == tuple(hosts)


@recorded("nws/base/hostlist_problems.txt", "expression")
def test_slip_is_named(answered, expression):
    with pytest.raises(ConfigError) as caught:
        expand(expression)
    answered(str(caught.value))


@recorded("nws/base/host_options.txt", "option")
def test_option_names_hosts_slots_and_users(answered, option) -> None:
    answered(str([(host.address or host.name, host.slots) for host in parse_hosts(option)]))


def test_option_names_all_problems_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_hosts("a:0,b:two,c d,e")
    assert [problem.split("; ")[0] for problem in caught.value.problems] == [
        "-H: 'a:0': '0' is not a number of slots",
        "-H: 'b:two': 'two' is not a number of slots",
        "-H: 'c d': 'd' is not known here",
    ]


def test_hostfile_without_hosts_or_without_a_file(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.write_text("# nothing\n")
    with pytest.raises(ConfigError, match="names no host; give one per line"):
        read_hostfile(empty)
    with pytest.raises(ConfigError, match="cannot read the hostfile: No such file"):
        read_hostfile(tmp_path / "missing")
    empty.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="not UTF-8"):
        read_hostfile(empty)
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path):
        with pytest.raises(ConfigError, match="no regular file"):
            read_hostfile(path)


HOSTFILES = Path(__file__).with_name("hostfiles")


def outcome(path: Path) -> str:
    """Return the hosts of a hostfile, or its problems, as text."""
    try:
        hosts = read_hostfile(path)
    except ConfigError as error:
        return "\n".join(problem.removeprefix(str(path)) for problem in error.problems)
    return "\n".join(f"{host.address or host.name} {host.slots}" for host in hosts)


def test_hostfiles_of_five_families(tmp_path: Path) -> None:
    outcomes = ""
    for part in (HOSTFILES / "files.txt").read_bytes().split(b"== ")[1:]:
        name, _, text = part.partition(b"\n")
        path = tmp_path / "hosts"
        path.write_bytes(text.replace(b"\n", b"\r\n") if b"dos" in name else text)
        outcomes += f"== {name.decode()}\n{outcome(path)}\n"
    assert outcomes == (HOSTFILES / "outcomes.txt").read_text(encoding="utf-8")
