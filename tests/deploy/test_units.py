"""Unit files: legal for systemd, confined, and to be enabled."""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from apples_deploy.sharing import DAEMONS, NODE, QUEUE
from apples_deploy.units import UnitPlace, unit, write_units
from apples_deploy.weather import SENSOR, SERVER
from nws.cli import main

ALL = (SERVER, SENSOR, *DAEMONS)
#: Most exposed that each unit may be, of 10; a queue's jobs inherit what confines it.
EXPOSURE = {
    "nws-server": 2.0,
    "nws-sensor": 2.0,
    "apples-manager": 2.1,
    "apples-node": 3.4,
    "apples-queue": 8.5,
}


def place(scope):
    files = {name: f"/etc/nws/{name}" for daemon in ALL for name in daemon.files}
    return UnitPlace(scope=scope, bin=str(Path(sys.executable).parent), files=files)


@pytest.fixture
def analyze(tmp_path):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed (Debian: systemd)")

    def run(*words):
        environment = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}
        return subprocess.run(
            ["systemd-analyze", *words], capture_output=True, text=True, env=environment, check=False
        )

    return run


@pytest.mark.parametrize("scope", ["system", "user"])
def test_units_are_legal_for_systemd(analyze, tmp_path, scope):
    files = write_units(ALL, place(scope), tmp_path / "units")
    done = analyze(*(["--user"] if scope == "user" else []), "verify", *files)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_units_are_confined_as_documented(analyze, tmp_path):
    for file in write_units(ALL, place("system"), tmp_path):
        done = analyze("security", "--offline=yes", file)
        found = re.search(r"Overall exposure level for [\w.-]+: ([\d.]+)", done.stdout)
        assert found, done.stderr
        assert float(found[1]) <= EXPOSURE[file.stem]


@pytest.mark.parametrize("daemon", ALL, ids=lambda daemon: daemon.name)
def test_unit_can_be_enabled_and_notifies(daemon):
    system, user = (unit(daemon, place(scope)) for scope in ("system", "user"))
    assert "WantedBy=multi-user.target" in system
    assert "WantedBy=default.target" in user
    for text in (system, user):
        assert "Type=notify" in text
        assert "{" not in text
    # without root, only what a user's systemd can do
    assert not re.search(r"^(ProtectSystem|DynamicUser|LoadCredential|CapabilityBoundingSet)", user, re.M)


def test_unit_of_the_queue_does_not_confine_jobs():
    text = unit(QUEUE, place("system"))
    assert "KillMode=process" in text
    assert not re.search(r"^(NoNewPrivileges|SystemCallFilter|Protect\w+|MemoryMax|UMask)=", text, re.M)


def test_unit_of_the_node_manager_keeps_what_it_needs():
    text = unit(NODE, place("system"))
    assert "CapabilityBoundingSet=CAP_KILL CAP_SYS_NICE" in text
    assert "DynamicUser" not in text
    assert "PrivateTmp" not in text


def test_unit_special_characters_reach_the_daemon_as_they_are(analyze, tmp_path):
    odd = UnitPlace(
        scope="user", bin="/opt/50%/bin", state='/srv/a "b" 5% $HOME \\c', files={"ca.pem": "/srv/%h/ca"}
    )
    text = unit(SENSOR, odd, ("sensor", "--site", '%H "x" $y', "--ca", "{ca.pem}"))
    assert 'ExecStart=/opt/50%%/bin/nws sensor --site "%%H \\"x\\" $$y" --ca /srv/%%h/ca' in text
    assert 'Environment="APPLES_STATE=/srv/a \\"b\\" 5%% $HOME \\\\c"' in text
    assert "LoadCredential=ca.pem:/srv/%%h/ca" in unit(SENSOR, replace(odd, scope="system", state=None))


def test_units_are_printed_or_written(capsys, tmp_path, program_signals):
    with pytest.raises(SystemExit) as ended:
        main(["units", "nws-sensor", "--settings", "/srv/nws", "--bin", "/opt/x y/bin"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert 'ExecStart="/opt/x y/bin/nws" sensor' in text
    assert "LoadCredential=sensor.token:/srv/nws/sensor.token" in text
    with pytest.raises(SystemExit):
        main(["units", "--into", str(tmp_path)])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["nws-sensor.service", "nws-server.service"]
