"""`apples share -- COMMAND`: run any MPI program beside other jobs, with a node manager or by itself (`--wait`).

Nothing is decided here.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from apples.cli.optiongroups import given_words, option, options_record, with_options
from nws.base.command import FILE, signals_held_back
from nws.base.notes import step

if TYPE_CHECKING:
    from apples.daemons.nodeclient import NodeClient
    from apples.monitoring.job import MonitoredJob


@options_record
class ShareOptions:
    """Options of `apples share`.

    job : Name of the job (default: of the program and this process).
    node_socket : Socket of the node manager.
    wait : How ranks wait for messages, without a node manager: block frees the core for other processes, adaptive does
        so where that is measured to be faster.
    monitor : Afterwards, print how efficiently the ranks used their time.
    fit : Run nothing: report whether two programs fit on the same CPUs, by their last measured runs. COMMAND: both
        programs, each one word, as './solver input' or solver.
    """

    job: str | None = option("--job", metavar="NAME")
    node_socket: Path | None = option("--node-socket", type=FILE)
    wait: str | None = option("--wait", type=click.Choice(["block", "adaptive", "poll", "mpi"]))
    monitor: bool = option("--monitor", is_flag=True)
    fit: bool = option("--fit", is_flag=True)


@click.command(context_settings={"ignore_unknown_options": False})
@with_options(ShareOptions)
@click.argument("command", nargs=-1, required=True)
def share(command: tuple[str, ...], options: ShareOptions) -> int:
    """Run COMMAND, for example `mpiexec -n 4 ./program`, so that its ranks register with the node manager here.

    With --wait, no node manager is needed: `--wait block` is the cure for more ranks than cores, and for hosts with
    other processes. The program is not changed: the monitor is loaded before it (LD_PRELOAD).
    """
    from apples.daemons.nodeclient import NodeClient, find_node
    from apples.daemons.paths import SOCKET_VARIABLE
    from apples.errors import ConfigError, NoDaemon
    from apples.launching.preflight import executable
    from apples.monitoring.names import check_job

    job, wait, monitor, node_socket = options.job, options.wait, options.monitor, options.node_socket
    if options.fit:
        if useless := list(given_words(options, skip=("fit",))):
            raise ConfigError(f"--fit: runs nothing, so {', '.join(useless)} is of no use; leave it out")
        return _fit(command)
    if wait is not None and node_socket is not None:
        raise ConfigError(
            "--wait and --node-socket exclude each other: a node manager sets how ranks wait; leave one out"
        )
    program = executable(command[0])
    name = _name(command[0]) if job is None else check_job(job, what="--job")
    started = [program, *command[1:]]
    if wait is not None:
        return _run_alone(name, wait, started, monitor=monitor)
    node = find_node(node_socket)
    if node is None:
        raise NoDaemon(
            "no node manager answers on this host; start one with `apples node`, name its socket with --node-socket, "
            "or do without one: --wait block lets waiting ranks leave their cores to others"
        )
    socket, status = node
    with _monitored(name) as monitored, NodeClient(socket) as client:
        step(f"job {name}, node {status.node}, policy {status.policy}")
        sys.stdout.flush()
        client.ask("hold")
        code = _run(started, {**monitored.environment, SOCKET_VARIABLE: str(socket)})
        if monitor:
            click.echo("\n".join(_seen(client, name)), err=True)
    return code


def _fit(programs: tuple[str, ...]) -> int:
    """Print whether two programs fit beside each other; return 0 if they do, else 1."""
    from apples.coscheduling.fitting import fit
    from apples.daemons.classmemory import ClassMemory
    from apples.errors import ConfigError
    from nws.client.localweather import usable_cpus

    if len(programs) != 2:
        raise ConfigError(
            f"--fit: {len(programs)} programs given; expected 2, each one word ('./solver input')"
        )
    memory = ClassMemory.of_user()
    duties = [memory.duties(program) for program in programs]
    problems = [
        f"{program}: no run of it was measured; run it once under a policy with a monitor, as --policy spin-block"
        for program, known in zip(programs, duties, strict=True)
        if not known
    ]
    if problems:
        raise ConfigError(problems)
    fitting = fit(duties[0], duties[1], usable_cpus())
    for program, known, longer in zip(programs, duties, (fitting.first, fitting.second), strict=True):
        shares = ", ".join(f"{duty:.0%}" for duty in known)
        click.echo(
            f"{program}: ranks compute {shares} of their time; {longer:.2f} × its time alone beside the other"
        )
    click.echo(f"on {usable_cpus()} CPUs they {'fit' if fitting.fits else 'do not fit'}")
    return 0 if fitting.fits else 1


def _run_alone(name: str, wait: str, command: list[str], *, monitor: bool) -> int:
    """Run the program without a node manager, and return its exit code."""
    from apples.cli.report import block_lines, monitor_lines
    from apples.daemons.paths import SOCKET_VARIABLE
    from apples.monitoring.environment import WAITS
    from apples.monitoring.job import MonitoredJob

    with MonitoredJob(name, wait=WAITS[wait], notify=step) as monitored:
        sys.stdout.flush()
        # A node manager that the environment names would change how ranks wait.
        os.environ.pop(SOCKET_VARIABLE, None)
        code = _run(command, monitored.environment)
        if monitor:
            click.echo("\n".join(monitor_lines(monitored.figures())), err=True)
        if wait == "block":
            for line in block_lines(monitored.figures()):
                step(line)
    return code


def _name(program: str) -> str:
    """Return a legal job name made from the program's, different for every start."""
    from apples.monitoring.names import LONGEST

    start = f"-{os.getpid()}-{time.time_ns() // 1_000_000 % 1_000_000}"
    called = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in Path(program).name)
    return called[: LONGEST - len(start)] + start


def _monitored(name: str) -> MonitoredJob:
    """Return the job's monitor, by which its ranks register, even if the policy measures nothing."""
    from apples.errors import MonitorError
    from apples.monitoring.job import MonitoredJob

    try:
        return MonitoredJob(name, notify=step)
    except MonitorError as error:
        raise MonitorError(
            f"programs under `apples share` register by the monitor, whatever the policy: {error}; "
            "under gang and batch `apples-run` does without it"
        ) from error


def _seen(client: NodeClient, job: str) -> list[str]:
    """Return the node manager's report of the job, or the reason for none."""
    from apples.cli.report import process_lines
    from apples.errors import SharingError

    try:
        return process_lines(client.ask("job", job))
    except SharingError as error:
        return [f"no report of the job: {error}"]


def _run(command: list[str], variables: dict[str, str]) -> int:
    """Run the program and return its exit code, 128 + signal if one ended it.

    The terminal sends interrupts to the program directly. A TERM or HUP to this process is passed on as TERM.
    """
    # The program may run before Popen returns; a signal in between must not leave it behind.
    with (
        signals_held_back() as release,
        subprocess.Popen(command, env={**os.environ, **variables}) as process,
    ):
        while True:
            try:
                release()
                code = process.wait()
            except KeyboardInterrupt:
                # The program received the same interrupt; wait for its reaction.
                continue
            except SystemExit:
                process.terminate()
                raise
            return code if code >= 0 else 128 - code
