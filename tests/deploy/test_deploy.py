"""Deployments: of hosts that a fake ssh reaches, and the agent on this machine against plans."""

import dataclasses
import io
import json
import stat
import zipfile
from importlib import metadata

import pytest
import yaml

from apples.cli.toolbox import main as apples_main
from apples_deploy import agent, deployment
from apples_deploy.authority import Certificate
from apples_deploy.records import HostLayout, HostReport, Package, host_plan
from apples_deploy.sharing import manager_role, node_role
from apples_deploy.weather import not_measuring, sensor_role, server_role
from apples_deploy.wheel import package, packed, this_package
from nws.cli import main
from tests.transcripts import recorded

REPORT = HostReport(root=False, home="/home/u", python=(3, 11), systemd=None)


def layout(prefix="/p", *, installed=None, report=REPORT, systemd=True):
    return HostLayout.of("a", report, prefix=prefix, installed=installed, systemd=systemd)


def plan_of(prefix, package=None):
    role = sensor_role("a", url="https://w:1", token="t\n", authority="c\n", site=None)
    installed = str(prefix / "env") if package is None else None
    return host_plan(layout(str(prefix), installed=installed), package, (role,)).document()


def test_deploy_of_two_hosts_is_repeated_checked_and_removed(over_ssh, free_port, capsys, tmp_path):
    words = ("--server", "localhost", "--port", free_port, "host[1-2]")
    try:
        assert over_ssh(main, *words) == 0, capsys.readouterr().err
        assert "all of 2 hosts measure" in capsys.readouterr().err
        assert over_ssh(main, *words) == 0
        assert "3 hosts: 0 changed, 3 as they were" in capsys.readouterr().err
        token = tmp_path / "host1/hosts/host1/settings/nws-sensor/sensor.token"
        assert stat.S_IMODE(token.stat().st_mode) == 0o600
        assert (
            token.read_text() != (tmp_path / "host2/hosts/host2/settings/nws-sensor/sensor.token").read_text()
        )
        token.chmod(0o644)
        assert over_ssh(main, *words, "--check") == 1
        assert "sensor.token has mode 0644, expected 0600" in capsys.readouterr().err
        assert stat.S_IMODE(token.stat().st_mode) == 0o644
        # the server stays while another host measures
        assert over_ssh(main, *words[:-1], "host1", "--remove") == 0, capsys.readouterr().err
        assert not token.exists()
        over_ssh(main, *words[:-1], "host2", "--check")
        assert "is not running" not in capsys.readouterr().err
    finally:
        assert over_ssh(main, *words, "--remove") == 0, capsys.readouterr().err
    assert not token.exists()
    assert over_ssh(main, *words, "--check") == 1
    assert "nws-server is not running" in capsys.readouterr().err


def test_deploy_reports_hosts_that_fail_at_the_end(over_ssh, free_port, capsys):
    code = over_ssh(main, "--url", f"https://localhost:{free_port}", "locked", "off", "bare")
    lines = capsys.readouterr().err.splitlines()[-3:]
    assert code == 5
    assert [line.split(": ")[1] for line in lines] == ["locked", "off", "bare"]
    assert "refuses our key" in lines[0]


@recorded("deploy/problems.txt", "words")
def test_deploy_with_wrong_options_names_them(over_ssh, capsys, answered, words):
    assert over_ssh(main, *words) == 2
    answered(capsys.readouterr().err)


def test_deploy_with_settings_that_it_makes_names_them(over_ssh, capsys, tmp_path, monkeypatch):
    file = tmp_path / "further.yaml"
    file.write_text("listen: 127.0.0.1:8090\n")
    assert over_ssh(main, "--server", "a", "b", "--settings", str(file)) == 2
    assert "further.yaml: listen: set by the deployment; leave it out" in capsys.readouterr().err
    file.write_text("key: sharing.key\n")
    monkeypatch.setattr("sys.argv", ["apples", "deploy", "--manager", "a", "b", "--config", str(file)])
    with pytest.raises(SystemExit) as ended:
        apples_main()
    assert ended.value.code == 2
    assert "further.yaml: key: set by the deployment" in capsys.readouterr().err


def test_apples_deploy_starts_node_and_manager(over_ssh, free_port, capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))

    def main(words):
        monkeypatch.setattr("sys.argv", ["apples", *words])
        apples_main()

    words = ("--manager", "localhost", "--port", free_port, "host1")
    try:
        assert over_ssh(main, *words) == 0, capsys.readouterr().err
        assert "apples-manager" in capsys.readouterr().err
        assert over_ssh(main, *words, "--check") == 0
        keys = [
            (tmp_path / h / "hosts" / h / f"settings/apples-{daemon}/sharing.key").read_text()
            for h, daemon in (("localhost", "manager"), ("host1", "node"))
        ]
        assert keys[0] != keys[1]
        log = (tmp_path / "localhost/hosts/localhost/state").glob("apples-manager.*.log")
        assert "node host1 has joined" in next(log).read_text()
    finally:
        assert over_ssh(main, *words, "--remove") == 0


def test_password_of_an_index_is_in_no_command_line(tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(agent, "must", lambda command, within_s, **more: calls.append((command, more)))
    wheel = tmp_path / "w-1-py3-none-any.whl"
    wheel.touch()
    for where in (
        {"wheelhouse": None, "index": "https://u:secret@p/simple"},
        {"wheelhouse": "https://u:secret@p", "index": None},
    ):
        about, _ = package(wheel, python="python3", **where)
        assert "secret" not in " ".join(about.arguments)
        agent.make_environment("/e", [*about.arguments, "w"], dict(about.variables))
        command, variables = calls[-1]
        assert "secret" not in " ".join(command)
        assert "secret" in "".join(variables.values())


def test_agent_installs_completely_or_not_at_all(tmp_path, monkeypatch):
    made = []

    def environment(directory, what, variables):
        made.append(what)
        (tmp_path / "p").joinpath(directory, "bin").mkdir(parents=True)
        if len(made) == 1:
            raise agent.StepFailed("pip ended with code 1: no space")

    monkeypatch.setattr(agent, "make_environment", environment)
    about = Package(digest="0123456789abcdef0123", wheel="w-1-py3-none-any.whl", arguments=("--no-index",))
    host = agent.PlannedHost(plan_of(tmp_path / "p", about))
    with pytest.raises(agent.StepFailed, match="no space"):
        host.install("")
    assert not host.installed()
    assert not (tmp_path / "p/current").exists()
    host.install("")
    assert host.installed()
    assert (tmp_path / "p/current").resolve().name == "env-0123456789abcdef"
    host.install("")
    assert len(made) == 2
    assert made[0][0] == "--no-index"


def test_text_of_hosts_cannot_control_the_terminal(monkeypatch):
    class Connection:
        def __init__(self, *words, **named):
            self.answers = [{"root": False, "home": "/h", "python": [3, 11], "systemd": None}]
            self.answers.append({"differences": ["\x1b[2J is not there"], "installed": True})

        def __enter__(self):
            return self

        def __exit__(self, *exception):
            return None

        def send(self, question):
            return None

        def answer(self, within_s):
            return json.dumps(self.answers.pop(0)).encode()

    monkeypatch.setattr(deployment, "AgentConversation", Connection)
    lines = []
    means = deployment.Means(python="python3", prefix=None, package=None, installed="/env")
    (result,) = deployment.HostDeployment(means, lines.append).compare({"a": ()})
    assert result.differences == ("\x1b[2J is not there",)
    assert lines[0].startswith("a: \\x1b[2J is not there")


@pytest.mark.parametrize("part", ["", "env", "settings"])
def test_agent_prefix_that_others_may_replace_is_refused(tmp_path, part):
    (tmp_path / "p" / part).mkdir(parents=True)
    (tmp_path / "p" / part).chmod(0o777)
    host = agent.PlannedHost(plan_of(tmp_path / "p"))
    host.layout["settings"] = str(tmp_path / "p/settings")
    host.layout["bin"] = str(tmp_path / "p/env/bin")
    for change in (lambda: host.apply(None), host.remove):
        with pytest.raises(
            agent.StepFailed, match=r"other users may replace it, as .* has mode 0777 .*; chmod o-w"
        ):
            change()
    assert list(tmp_path.rglob("*.token")) == []


def test_agent_names_each_difference(tmp_path):
    plan = plan_of(tmp_path)
    assert agent.PlannedHost(plan).compare() == [
        f"the package is not installed in {tmp_path}/env/bin",
        f"{tmp_path}/hosts/a/settings/nws-sensor/sensor.token is not there",
        f"{tmp_path}/hosts/a/settings/nws-sensor/ca.pem is not there",
        "nws-sensor is not running",
    ]


def test_agent_runs_units_where_systemd_does(tmp_path, monkeypatch):
    """The calls of systemctl, which a script records; a file is its running service."""
    script = tmp_path / "systemctl"
    script.write_text(
        f"#!/bin/sh\necho $* >>{tmp_path}/calls\n"
        f'case "$*" in *is-active*) test -e {tmp_path}/runs;; *restart*) touch {tmp_path}/runs;;'
        f" *stop*) rm {tmp_path}/runs;; esac\n"
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    (tmp_path / "env/bin").mkdir(parents=True)
    (tmp_path / "env/bin/nws").write_text("")
    (tmp_path / "env/bin/nws").chmod(0o755)
    report = dataclasses.replace(REPORT, systemd="user", home=str(tmp_path))
    role = sensor_role("a", url="https://w:1", token="t\n", authority="c\n", site=None)
    where = layout(str(tmp_path), installed=str(tmp_path / "env"), report=report)
    host = agent.PlannedHost(host_plan(where, None, (role,)).document())
    assert host.apply(None) == ["sensor.token", "ca.pem", "nws-sensor.service", "nws-sensor"]
    assert host.compare() == []
    calls = [line.partition("--user ")[2] for line in (tmp_path / "calls").read_text().splitlines()]
    assert [call for call in calls if "is-active" not in call] == [
        "daemon-reload",
        "enable --quiet nws-sensor",
        "restart nws-sensor",
    ]
    unit = tmp_path / ".config/systemd/user/nws-sensor.service"
    unit.write_text(unit.read_text().replace("RestartSec=5", "RestartSec=6"))
    assert host.compare() == [f"{unit} differs"]
    assert host.remove() == ["nws-sensor", "settings"]
    assert not unit.exists()
    assert not (tmp_path / "runs").exists()


def test_daemons_of_one_host_have_files_of_their_own(tmp_path, monkeypatch):
    roles = (manager_role({}, port=7171, key="all\n"), node_role("a", {}, manager="a:7171", key="one\n"))
    where = layout(str(tmp_path), installed="/env")
    plan = host_plan(where, None, roles)
    texts = {file.text for file in plan.files if file.path.endswith("sharing.key")}
    assert texts == {"all\n", "one\n"}
    assert len({file.path for file in plan.files}) == 4
    started = []
    monkeypatch.setattr(agent.PlannedHost, "installed", lambda host: True)
    monkeypatch.setattr(agent, "must", lambda command, within_s, **variables: started.append(command))
    both = agent.PlannedHost(plan.document())
    assert both.apply(None)[-2:] == ["apples-manager", "apples-node"]
    agent.PlannedHost(host_plan(where, None, roles[1:]).document()).remove()
    assert not [text for text in both.compare() if "sharing" in text and "/apples-manager/" in text]
    both.remove()
    assert not (tmp_path / "hosts/a/settings").exists()


def test_agent_answers_with_stdout_alone():
    assert agent.must(["sh", "-c", "echo out; echo warning >&2"], 5.0) == "out\n"


def test_host_named_as_a_role_gets_no_token_of_it():
    certificate = Certificate(certificate="c", key="k", authority="a")
    tokens = {"admin": "of host admin\n"}
    role = server_role(port=1, settings={}, tokens=tokens, admin="all\n", read="r\n", certificate=certificate)
    assert role.files["admin.token"] == "all\n"
    assert yaml.safe_load(role.files["weather.yaml"])["tokens"]["write"] == ["admin.sensor.token"]


def test_plan_changes_its_digest_with_anything_that_a_restart_brings():
    role = sensor_role("a", url="https://w:1", token="t\n", authority="c\n", site=None)
    packages = (Package(digest="1", wheel="w"), Package(digest="2", wheel="w"))
    roles = (role, dataclasses.replace(role, words=(*role.words, "--site", "x")))
    roles += (dataclasses.replace(role, files={**role.files, "ca.pem": "d\n"}),)
    digests = {host_plan(layout(), p, (r,)).services[0].digest for p in packages for r in roles}
    assert len(digests) == 6


def test_plan_of_a_systemd_host_has_units():
    user = host_plan(layout(report=dataclasses.replace(REPORT, systemd="user")), None, ())
    assert user.layout.units == "/home/u/.config/systemd/user"
    system = dataclasses.replace(REPORT, systemd="system", root=True)
    role = node_role("a", {}, manager="m:7171", key="k\n")
    plan = host_plan(layout(None, report=system), None, (role,))
    (path,) = (file for file in plan.files if file.path.endswith(".service"))
    assert path.path == "/etc/systemd/system/apples-node.service"
    assert "ExecStart=/opt/apples-grid/current/bin/apples node --config" in path.text
    assert layout(report=system, systemd=False).scope is None


@pytest.fixture(scope="module")
def built():
    return this_package()


def test_wheel_of_this_package_is_the_same_each_time(built):
    assert this_package() == built


def test_wheel_of_an_installation_has_the_same_files(built, tmp_path):
    with zipfile.ZipFile(io.BytesIO(built[1])) as wheel:
        wheel.extractall(tmp_path)
        content = {name: wheel.read(name) for name in wheel.namelist() if not name.endswith("/RECORD")}
    (tmp_path / "nws" / "stale.pyc").write_bytes(b"")
    (info,) = tmp_path.glob("*.dist-info")
    (info / "INSTALLER").write_text("pip")
    with (info / "RECORD").open("a") as record:
        record.write(f"{info.name}/INSTALLER,,\nnws/stale.pyc,,\n../../../bin/nws,,\n")
    again = packed(metadata.PathDistribution(info))
    with zipfile.ZipFile(io.BytesIO(again)) as wheel:
        assert {n: wheel.read(n) for n in wheel.namelist() if not n.endswith("/RECORD")} == content
    assert packed(metadata.PathDistribution(info)) == again


def test_hosts_without_measurements_are_found():
    hosts = [{"host": "a", "lost": False, "series": 4}, {"host": "b", "lost": True, "series": 4}]
    hosts.append({"host": "c", "lost": False, "series": 0})
    document = json.loads(json.dumps({"hosts": hosts}))
    assert not_measuring(["a", "b", "c", "d"], document) == ["b", "c", "d"]
