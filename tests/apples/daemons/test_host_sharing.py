"""Requests of a launcher on another host, as lines: none ends the service but the end of the lines."""

import json
import socket
import threading

import pytest

from apples.daemons.hostsharing import converse
from apples.daemons.nodeclient import NodeClient
from apples.errors import NoDaemon
from apples.hosts.frames import FromAgent
from tests.transcripts import recorded

FIRST = b'{"lasting": false}\n'


@pytest.fixture(autouse=True)
def no_daemons(tmp_path, monkeypatch):
    monkeypatch.setenv("APPLES_NODE_SOCKET", str(tmp_path / "n.sock"))


def answers(*lines):
    found = []
    converse(iter(lines), lambda kind, text: found.append((kind, text)))
    return [json.loads(text) for kind, text in found if kind == FromAgent.ANSWER]


@recorded("apples/daemons/sharing_requests.txt", "line")
def test_what_cannot_be_understood_is_refused_and_the_next_answered(answered, line):
    refused, next_one = answers(FIRST, line, b'{"holds": null}\n')
    answered(refused["refused"])
    assert next_one == {"holds": False}


def test_unknown_policy_is_refused_with_those_there_are():
    (answer,) = answers(FIRST, b'{"join": ["roundabout", null, null]}')
    assert "roundabout" in answer["refused"]
    assert "gang" in answer["refused"]


def test_host_without_a_node_manager_says_so(monkeypatch):
    monkeypatch.setenv("SSH_CONNECTION", "10.0.0.1 40000 10.0.0.2 22")
    assert answers(FIRST, b'{"look": null}') == [{"look": {"launcher": "10.0.0.1", "node": None}}]


@recorded("apples/daemons/sharing_first_lines.txt", "lines")
def test_first_line_that_cannot_be_understood_ends_it(answered, lines):
    (answer,) = answers(*lines)
    answered(answer["refused"])


def test_ranks_without_a_node_manager_are_refused():
    (answer,) = answers(FIRST, b'{"ranks": "run-1"}')
    assert answer == {"refused": "no node manager has been joined"}


@pytest.mark.parametrize("status", [{}, {"policy": "gang"}, [], {"manager": 3}])
def test_client_strange_status_counts_as_no_node_manager(tmp_path, status):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "n.sock"))
        listener.listen()

        def answer():
            connection, _ = listener.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(json.dumps({"status": status}).encode() + b"\n")

        thread = threading.Thread(target=answer)
        thread.start()
        with NodeClient(tmp_path / "n.sock") as client, pytest.raises(NoDaemon, match="does not answer"):
            client.ask("status")
        thread.join()


def test_node_manager_is_joined_held_asked_and_left(local_cluster, monkeypatch):
    site = local_cluster()
    site.start()
    monkeypatch.setenv("APPLES_NODE_SOCKET", str(site.socket("a")))
    join = json.dumps({"join": ["gang", None, None]}).encode()
    found = answers(
        FIRST, join, b'{"holds": null}', b'{"ranks": "none"}', b'{"leave": null}', b'{"holds": null}'
    )
    joined, *others = found
    assert (joined["join"]["policy"], joined["join"]["started"]) == ("gang", False)
    assert others == [{"holds": True}, {"ranks": []}, {"leave": None}, {"holds": False}]
