"""`apples-run --nws URL`: planned from the service, and without it as far as this machine can measure itself."""

import json
import re
import time

import pytest

from nws.client import local_host
from nws.series import Measurement, Series
from nws.testing import InMemoryServer

NOT_THERE = "http://127.0.0.1:1"


@pytest.fixture
def server():
    """A service that knows this machine at 0.4 of a CPU, and a host elsewhere."""
    with InMemoryServer() as server:
        here, now = local_host(), time.time()
        server.register(here, cpus=2, cpu_model="A CPU")
        server.register("elsewhere", cpus=4, cpu_model="A CPU", address="10.9.9.9")
        values = {
            f"{kind}@{host}": value
            for host in (here, "elsewhere")
            for kind, value in (("cpu.new", 0.4), ("cpu.capacity", 0.8), ("memory.free", 2e9))
        }
        values |= {
            f"network.{kind}@{a}>{b}": value
            for a, b in ((here, "elsewhere"), ("elsewhere", here))
            for kind, value in (("latency", 1e-4), ("bandwidth", 1e8))
        }
        server.put(
            Measurement(Series.parse(name), now - ago, value)
            for ago in (20.0, 10.0, 0.0)
            for name, value in values.items()
        )
        yield server


def told(server):
    with server.client() as client:
        found = client.events()["events"]
    return [(e["kind"], e["text"]) for e in found if not e["kind"].startswith("host")]


def test_run_is_planned_from_the_service_and_told_to_it(run, known, small, server):
    command = run("apples-run", *small, "--nws", server.url, "--explain", state=known)
    assert command.code == 0
    assert (
        f"weather from the weather service at {server.url} (grid test, nothing older than 300 s):"
        in command.err
    )
    # three measurements say little about the length of a run
    assert re.search(rf"{re.escape(local_host())}: 0\.3\d of a CPU ± 0\.\d\d \(last", command.err)
    assert "samples, " in command.err
    assert " s old), 2.00 GB free" in command.err
    assert "measuring" not in command.err
    (planned, plan), (ended, end) = told(server)
    assert (planned, ended) == ("plan made", "run ended")
    assert plan.startswith("heat 64 on ")
    assert f"of {local_host()}, predicted " in plan
    assert end.startswith(f"heat 64 on {local_host()}: finished after ")
    same = run(
        "apples-run", *small, "--nws", server.url, "--explain", "--dry-run", "--horizon", "next", state=known
    )
    assert f"{local_host()}: 0.40 of a CPU ± 0.00" in same.err + same.out


def test_environment_names_the_service(run, known, small, server):
    command = run("apples-run", *small, "--dry-run", "--json", state=known, APPLES_NWS=server.url)
    document = json.loads(command.out)
    assert document["snapshot"]["source"].startswith(f"the weather service at {server.url}")
    assert document["snapshot"]["hosts"][0]["availability"]["age_s"] >= 0.0
    assert [kind for kind, _ in told(server)] == ["plan made"]


def test_environment_does_not_bother_the_mock_grid(run, known):
    command = run("apples-run", "1000", "--mock", "--dry-run", "-q", state=known, APPLES_NWS=NOT_THERE)
    assert (command.code, command.err) == (0, "")


def test_failed_run_has_ended_too(run, known, small, server):
    command = run(
        "apples-run", *small, "--set", "iterations=100000000", "-t", "1", "--nws", server.url, state=known
    )
    assert command.code == 124
    kind, text = told(server)[-1]
    assert kind == "run ended"
    assert f"heat 64 on {local_host()}: time limit after " in text


def test_without_the_service_it_says_so_once_and_measures(run, known, small):
    command = run("apples-run", *small, "--dry-run", "--json", "--nws", NOT_THERE, state=known)
    assert command.code == 0
    starting, first, second = command.err.splitlines()[:3]
    assert starting == "· starting …"
    assert first == (
        f"· no weather from the service ({NOT_THERE}: nobody listens there (connection refused)); "
        "planning with what can be measured here"
    )
    assert second.startswith(f"· measuring {local_host()}")
    document = json.loads(command.out)
    assert document["snapshot"]["source"] == "sensors on this machine"
    assert first.removeprefix("· ") in document["notes"]


def test_pool_of_the_service(run, known, small, server):
    command = run(
        "apples-run", *small, "--dry-run", "--json", "--nws", server.url, "--grid", "nws", state=known
    )
    assert command.code == 0
    snapshot = json.loads(command.out)["snapshot"]
    assert [(h["host"], h["slots"], h["cpu_type"]) for h in snapshot["hosts"]] == sorted(
        [("elsewhere", 4, "A CPU"), (local_host(), 2, "A CPU")]
    )
    links = snapshot["links"]
    assert (links["measured"], links["composed"]) == (2, 0)


def test_hosts_of_the_services_pool_are_chosen_as_any_others(run, known, small, server):
    options = ("--dry-run", "--json", "--nws", server.url, "--grid", "nws", "-x", "elsewhere")
    snapshot = json.loads(run("apples-run", *small, *options, state=known).out)["snapshot"]
    assert [h["host"] for h in snapshot["hosts"]] == [local_host()]


def test_pool_of_a_service_that_is_gone_is_this_machine(run, known, small):
    options = ("--dry-run", "--nws", NOT_THERE, "--grid", "nws")
    command = run("apples-run", *small, *options, state=known)
    assert command.code == 0
    assert command.err.count("no weather from the service") == 1
    assert f"measuring {local_host()}" in command.err


def test_token_from_a_file(run, known, small, tmp_path):
    path = tmp_path / "write.token"
    path.write_text("writing-0123456789")
    path.chmod(0o600)
    tokens = {"read": ["reading-0123456789"], "write": ["writing-0123456789"]}
    with InMemoryServer(tokens=tokens) as server:
        refused = run("apples-run", *small, "--dry-run", "--nws", server.url, state=known)
        assert (refused.code, refused.err.count("no weather from the service")) == (0, 1)
