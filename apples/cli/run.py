"""`apples-run SIZE`: call the agent with the options, and print text or JSON. Nothing is decided here."""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click

from apples.cli.console import Console, ProgressNotes
from apples.cli.optiongroups import HeadedCommand, with_options
from apples.cli.runoptions import OutputOptions, RunOptions, SharingOptions
from apples.errors import ConfigError, MonitorError, SharingError
from nws.base.command import DISTRIBUTION, run_program

if TYPE_CHECKING:
    from apples.daemons.session import SharingSession
    from apples.model.runrequest import Monitor
    from apples.platforms.sharedhosts import SharedHosts
    from apples.run.agent import Decision
    from apples.run.loop import AttemptLoop

_EPILOG = """\b
Exit codes: 0 done · highest over ranks if a rank failed, 128 + signal if one was killed
  2 usage · 3 no feasible plan · 4 unreadable store · 5 no monitor · 6 request rejected
  7 no answer · 8 no such job, run or host · 124 time limit · 125 launcher failed
  126 not executable · 127 not found · 130 interrupted
"""


@click.command(cls=HeadedCommand, context_settings={"help_option_names": ["-h", "--help"]}, epilog=_EPILOG)
@click.argument("size", type=click.IntRange(min=1))
@with_options(RunOptions)
@click.version_option(package_name=DISTRIBUTION, prog_name="apples-run")
@click.pass_context
def run(context: click.Context, /, size: int, options: RunOptions) -> int:
    """Run an MPI stencil application of SIZE rows on the hosts that will end it soonest.

    Measures the hosts, chooses hosts, rank order and slab heights, runs, and reports
    how good the prediction was. Without a grid file the pool is this machine. With --nws, forecasts come from
    a weather service; hosts that it cannot forecast are measured here as far as possible.
    """
    console = Console()
    # Before the imports, which take seconds after an installation.
    console.note("starting …")
    from apples.cli import queued_run
    from apples.cli.assemble import assemble
    from apples.cli.conflicts import sharing_conflicts

    problems = sharing_conflicts(options)
    if problems:
        raise ConfigError(problems)
    options = options.for_context(context)
    sharing, output = options.sharing, options.output
    if sharing.queue:
        return queued_run.run_queued(size, options, console)
    events = _Events(output.json_lines, console)
    with ExitStack() as stack:
        with console.never_silent():
            session: SharingSession | SharedHosts | None = None
            if sharing.coscheduled is not None:
                session = _session(sharing.coscheduled, options, console)
                stack.enter_context(session)
            elif sharing.policy == "auto" and sharing.wait is None and options.pool.kind.shares_hosts:
                session = _policy_there(options, console, stack)
            monitor: Monitor | None = None
            if _needs_monitor(sharing, session) and not output.dry_run:
                monitor = _monitor(sharing, session, stack)
            assembled = assemble(size, options, console, session, monitor)
            from apples.run.loop import AttemptLoop

            loop = AttemptLoop(*assembled, events.emit)
            decision = loop.decide()
        if output.json_lines:
            events.emit("plan", decision.document())
        if console.verbose:
            console.detail("command: " + " ".join(loop.command_line(decision)))
        if output.dry_run:
            _print_plan(decision, output)
            return 0
        return _run(loop, decision, options, events, console)


def _policy_there(
    options: RunOptions, console: Console, stack: ExitStack
) -> SharingSession | SharedHosts | None:
    """Return the session of a run under `--policy auto`, for the policy of the node managers on its hosts.

    On several hosts, each snapshot looks for them. None if there is none on this machine, and, with a note, if the run
    cannot take part.
    """
    if options.pool.kind.several_hosts:
        from apples.platforms.sharedhosts import SharedHosts

        return stack.enter_context(SharedHosts(None, console.note))
    from apples.daemons.nodeclient import find_node

    node = find_node()
    if node is None:
        return None
    policy = node[1].policy
    try:
        session = _session(policy, options, console)
        stack.enter_context(session)
        return session
    except (ConfigError, MonitorError, SharingError) as error:
        console.note(f"the run does not take part in policy {policy} of this machine: {error}")
        return None


def _needs_monitor(sharing: SharingOptions, session: SharingSession | SharedHosts | None) -> bool:
    """Return whether the user wants a monitor, or a policy that is known now needs one on several hosts."""
    if sharing.monitor or sharing.wait is not None:
        return True
    if session is None or session.hosts is None or session.kind is None:
        return False
    return session.kind.needs_monitor


def _monitor(
    sharing: SharingOptions, session: SharingSession | SharedHosts | None, stack: ExitStack
) -> Monitor:
    """Return the monitor of this run; raise `MonitorError` if it cannot be built."""
    from apples.daemons.session import SharingSession
    from apples.monitoring.environment import WAITS, page_directory
    from apples.monitoring.job import JOB, MonitoredRun

    if not isinstance(session, SharingSession):
        # The pages are in the run directory on each host, where its node manager reads them.
        return MonitoredRun(wait=WAITS[sharing.wait or "mpi"], job=JOB if session is None else session.job)
    # Under a policy the job already has the name under which its ranks register, and a directory for its pages.
    return MonitoredRun(job=session.job, directory=stack.enter_context(page_directory()))


def _session(policy: str, options: RunOptions, console: Console) -> SharingSession | SharedHosts:
    """Return the coscheduling session of this run; raise `ConfigError` for an unknown policy."""
    from apples.coscheduling.policies import policy_kind

    kind = policy_kind(policy)
    if options.pool.kind.several_hosts:
        from apples.platforms.sharedhosts import SharedHosts

        return SharedHosts(kind, console.note)
    from apples.daemons.session import SharingSession

    return SharingSession(kind, console.note, run=not options.output.dry_run)


def _run(
    loop: AttemptLoop, decision: Decision, options: RunOptions, events: _Events, console: Console
) -> int:
    from apples.cli.report import block_lines, explanation_lines, monitor_lines, run_lines, sharing_lines

    record, output = loop.run(decision), options.output
    last, outcome = loop.decision, record.outcome
    assert last is not None
    assert outcome is not None
    if output.json_lines:
        events.emit("run", last.document(record))
    if output.as_json:
        _print_json(last.document(record))
    elif not output.json_lines:
        if output.explain:
            console.lines(explanation_lines(last))
        console.lines(run_lines(last, record))
        if options.sharing.monitor and loop.request.monitor is not None:
            console.lines(monitor_lines(loop.request.monitor.figures))
        if options.sharing.wait == "block" and loop.request.monitor is not None:
            console.lines(block_lines(loop.request.monitor.figures))
        if record.sharing:
            console.lines(sharing_lines(record.sharing))
    if outcome.message and not outcome.finished:
        click.echo(f"apples-run: {outcome.message}", err=True)
    return outcome.exit_code


def _print_plan(decision: Decision, output: OutputOptions) -> None:
    from apples.cli.report import explanation_lines, plan_lines

    if output.as_json:
        _print_json(decision.document())
        return
    if output.json_lines:
        return
    lines = plan_lines(decision)
    if output.explain:
        lines += explanation_lines(decision)
    click.echo("\n".join(lines))


def _print_json(document: dict[str, Any]) -> None:
    click.echo(json.dumps(document))


class _Events:
    """Events of a run: written as `--json-lines`, one document a line; progress also for the user's eyes."""

    def __init__(self, as_lines: bool, console: Console) -> None:
        self._as_lines, self._progress = as_lines, ProgressNotes(console)

    def emit(self, event: str, document: dict[str, Any]) -> None:
        """Write one event and flush."""
        if event == "progress":
            self._progress.show(document)
        if self._as_lines:
            _print_json({"event": event, **document})
            sys.stdout.flush()


def main() -> None:
    """Run `apples-run` as a program."""
    run_program(run, "apples-run")
