"""The real node_exporter and Prometheus from the system's packages, on ports the system chooses."""

from __future__ import annotations

import shutil
import subprocess
import time
from contextlib import ExitStack, contextmanager

import psutil
import pytest
import requests

_PATIENCE_S = 30.0


def need():
    """Skip, saying why, where the programs are not installed."""
    for program in ("prometheus", "prometheus-node-exporter"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed; Debian's package has the same name")


@contextmanager
def running(command, directory):
    """A server until the end of the block; gives its process and the address it listens on."""
    with (directory / f"{command[0]}.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=directory, start_new_session=True)
    try:
        yield process, f"127.0.0.1:{until(lambda: _port(process), f'{command[0]} to listen')}"
    finally:
        process.kill()
        process.wait()


def _port(process):
    assert process.poll() is None, f"{process.args} ended with {process.returncode}"
    return next(
        (c.laddr.port for c in psutil.Process(process.pid).net_connections("tcp") if c.status == "LISTEN"),
        None,
    )


def until(question, what):
    """The first true answer; fails when there is none in half a minute."""
    end = time.monotonic() + _PATIENCE_S
    while time.monotonic() < end:
        if answer := question():
            return answer
        time.sleep(0.05)
    raise AssertionError(f"waited {_PATIENCE_S:g} s for {what}")


def exporter_command():
    """A node_exporter with the collectors that the source asks for."""
    collectors = [f"--collector.{name}" for name in ("cpu", "meminfo", "stat", "schedstat")]
    return [
        "prometheus-node-exporter",
        "--web.listen-address=127.0.0.1:0",
        "--collector.disable-defaults",
        *collectors,
    ]


def prometheus_command(directory, instances, every="250ms", web=None):
    """A Prometheus that scrapes these addresses; web : its web configuration, such as its users."""
    listed = ", ".join(f'"{instance}"' for instance in instances)
    (directory / "prometheus.yml").write_text(
        f"global: {{scrape_interval: {every}, scrape_timeout: {every}}}\n"
        f"scrape_configs: [{{job_name: node, static_configs: [{{targets: [{listed}]}}]}}]\n"
    )
    command = ["prometheus", "--config.file=prometheus.yml", "--web.listen-address=127.0.0.1:0"]
    if web is not None:
        (directory / "web.yml").write_text(web)
        command.append("--web.config.file=web.yml")
    return [*command, "--storage.tsdb.path=data", "--log.level=warn"]


@contextmanager
def scraped(directory, every="250ms"):
    """One exporter and a Prometheus that has scraped it twice: its URL, the instance, the exporter's process."""
    with ExitStack() as stack:
        exporter, instance = stack.enter_context(running(exporter_command(), directory))
        command = prometheus_command(directory, [instance], every)
        _, address = stack.enter_context(running(command, directory))
        url = f"http://{address}"
        until(
            lambda: len(values(url, f'node_memory_MemAvailable_bytes{{instance="{instance}"}}[1m]')) > 2,
            "scrapes",
        )
        yield url, instance, exporter


def values(url, question):
    """Samples of the first series of an answer; none while the server is starting."""
    try:
        answer = requests.get(f"{url}/api/v1/query", params={"query": question}, timeout=5)
        result = answer.json()["data"]["result"] if answer.ok else []
    except requests.ConnectionError:
        return []
    return result[0]["values"] if result else []
