"""Real host checks through a fake ssh: all hosts at once, each failure with its reason, nobody waited for long."""

import sys

import pytest
from msgspec import structs, to_builtins

from apples.hosts import hostcheck, hostpreflight
from apples.hosts.conversation import AgentConversation
from apples.hosts.facts import Needs
from apples.hosts.frames import ToAgent
from apples.hosts.hostmessages import (
    AskKernel,
    AskLink,
    AskServe,
    AskSurvey,
    HostCheckError,
    KernelAnswer,
    LinkAnswer,
    PortAnswer,
    SurveyedAnswer,
)
from apples.hosts.hostpreflight import CallbackListener, Candidate
from apples.hosts.travelling import CHECK, agent_program


def candidates(*names):
    return [Candidate(name=name, address=name) for name in names]


def conversation(host, request=b'{"files": [], "disks": {}}'):
    return AgentConversation(host, (ToAgent.CHECK, request), program=agent_program(CHECK))


def needs(**more):
    return Needs(versions=hostcheck.versions(), **more)


def test_unfit_hosts_have_reasons_in_order(fake_ssh):
    asked = candidates(
        "locked", "alpha", "stranger", "changed", "nameless", "off", "bare", "chatty", "prompting"
    )
    found = {one.candidate.name: one for one in hostpreflight.check(asked, needs(), limit_s=60.0)}
    assert list(found) == [one.name for one in asked]
    assert [name for name, one in found.items() if one.fit] == ["alpha", "chatty", "prompting"]
    reasons = {name: one.reason.split(";")[0] for name, one in found.items() if not one.fit}
    assert reasons == {
        "locked": "refuses our key",
        "stranger": "has a host key that is not known here",
        "changed": "has another host key than the one that is known",
        "nameless": "has a name that does not resolve here",
        "off": "cannot be reached",
        "bare": "has no python3",
    }


def test_host_says_what_it_is(fake_ssh, tmp_path):
    path = str(tmp_path / "run.chk")
    (tmp_path / "token").touch()
    wants = needs(disk_bytes={path: 10.0}, tokens={path: "token"}, files=(__file__, "/no/such/file"))
    (one,) = hostpreflight.check(candidates("alpha"), wants, limit_s=60.0)
    assert one.problems == ("lacks /no/such/file; install the same at the same path there",)
    facts = one.facts
    assert facts.versions == hostcheck.versions()
    assert facts.survey is not None
    assert 0.0 <= facts.survey.availability <= 1.0
    assert facts.survey.cpus >= 1
    assert facts.disks[path].shared
    assert abs(facts.skew_s) < hostpreflight.facts.MOST_SKEW_S


def test_host_that_says_nothing_is_not_waited_for(fake_ssh):
    (mute,) = hostpreflight.check(candidates("mute"), needs(), limit_s=0.2)
    assert mute.reason == "did not answer within 0.2 s; it is off, overloaded, or cut off"


def test_closed_connection_leaves_no_process(fake_ssh):
    connection = conversation("mute")
    connection.close()
    assert connection._process.returncode == -9
    with hostpreflight.conversations_with(candidates("alpha"), needs(), limit_s=60.0) as found:
        process = found[0][1]._process
    assert process.returncode == 0


def test_this_machine_is_asked_without_ssh(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    (one,) = hostpreflight.check([Candidate(name="here", address=None)], needs(), limit_s=60.0)
    assert one.fit


def test_orders_after_the_check(fake_ssh):
    with conversation("alpha") as alpha:
        alpha.answer(60.0)
        port = alpha.question(AskServe(address="127.0.0.1"), PortAnswer, 30.0).port
        # one host is both ends here: the server answers on a thread of its own
        link = AskLink(peer="beta", address="127.0.0.1", port=port, within_s=5.0)
        answer = alpha.question(link, LinkAnswer, 30.0)
        assert 0 < answer.latency_s < 1
        assert answer.bandwidth_Bps > 1e6
        with pytest.raises(HostCheckError, match=r"beta at 127\.0\.0\.1 port 1: cannot connect"):
            alpha.question(structs.replace(link, port=1), LinkAnswer, 30.0)
        failing = AskKernel(command=[sys.executable, "-c", "print('noise'); raise SystemExit('no')"])
        with pytest.raises(HostCheckError, match=r"^ended with code 1: no$"):
            alpha.question(failing, KernelAnswer, 30.0)
        program = "import sys; open(sys.argv[1], 'w').write('{\"seconds_per_cell\": 1e-9}')"
        command = [sys.executable, "-c", program, "OUTPUT"]
        kernel = alpha.question(AskKernel(command=command), KernelAnswer, 30.0)
        assert kernel.seconds_per_cell == 1e-9
        again = alpha.question(AskSurvey(), SurveyedAnswer, 30.0)
        assert again.survey_error is None
        assert 0 <= again.survey.availability <= 1


def test_host_reports_the_addresses_at_which_it_reaches_us(fake_ssh):
    with CallbackListener() as listener:
        wanted = {**to_builtins(listener.request()), "addresses": ["127.0.0.1"]}
        found = []
        for first, callback in (
            ("127.0.0.1", wanted),
            (None, {**wanted, "token": "other"}),
            (None, {**wanted, "addresses": []}),
        ):
            found.append(hostcheck.called_back(callback, first))
    assert found == [["127.0.0.1"], [], None]
    assert hostcheck.called_back(wanted, None) == []


def test_listener_uses_the_ports_that_mpi_may_use(monkeypatch):
    with CallbackListener() as other:
        taken = other.request().port
        monkeypatch.setenv("MPIEXEC_PORT_RANGE", f"{taken}:{taken}")
        with pytest.raises(OSError, match=f"no port of {taken}:{taken} is free"):
            CallbackListener()


def test_host_that_breaks_off_is_told(fake_ssh):
    with conversation("alpha") as alpha:
        alpha.answer(60.0)
        alpha.send(b"{}")
        with pytest.raises(HostCheckError, match=r"broke off with code 1: KeyError: 'do'"):
            alpha.answer(30.0)


def test_conversation_of_an_unknown_kind_is_refused(fake_ssh):
    alpha = AgentConversation("alpha", (b"?", b""), program=agent_program(CHECK))
    with (
        alpha,
        pytest.raises(HostCheckError, match=r"cannot take part: the launcher's setup: the first frame"),
    ):
        alpha.answer(60.0)
