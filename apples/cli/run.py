"""`apples-run SIZE`: options in, the agent called, text or JSON out. Nothing is decided here."""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click

from apples.cli.adapting import with_adaptation
from apples.cli.console import Console
from apples.cli.resilience import with_resilience
from apples.cli.slurmoptions import with_slurm
from nws.base.command import run_program

if TYPE_CHECKING:
    from apples.daemons.session import SharingSession
    from apples.monitoring.job import MonitoredJob
    from apples.run.agent import Agent, Decision, RunRequest
    from apples.run.enactor import Enactor

_EPILOG = """\b
Exit codes: 0 done · highest over ranks if a rank failed, 128 + signal if one was killed
  2 usage · 3 no feasible plan · 4 unreadable store · 5 no monitor · 124 time limit
  125 launcher failed · 126 not executable · 127 not found · 130 interrupted
"""


@click.command(context_settings={"help_option_names": ["-h", "--help"]}, epilog=_EPILOG)
@click.argument("size", type=click.IntRange(min=1))
@click.option("-a", "--app", help="Application: mhd3d (default), heat, jacobi2d, or one a grid file knows.")
@click.option(
    "-s",
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="Option of the application; may be repeated.",
)
@click.option(
    "-g",
    "--grid",
    "grid_file",
    metavar="FILE",
    help="Hosts and links (YAML); nws: all hosts of the weather service; without it, this machine.",
)
@click.option(
    "--nws", metavar="URL", envvar="APPLES_NWS", help="Plan from this weather service (env APPLES_NWS)."
)
@click.option(
    "--nws-token-file", metavar="FILE", envvar="NWS_TOKEN_FILE", help="Token for it, in a file of mode 0600."
)
@click.option("--nws-ca", metavar="FILE", envvar="NWS_CA", help="Certificates to trust, for https.")
@click.option(
    "--nws-stale-after",
    metavar="TIME",
    help="Forecasts of the service older than this count as unmeasured (default 5m).",
)
@click.option("--mock", is_flag=True, help="Run on the mock grid, in simulated time.")
@click.option("--scenario", metavar="FILE", help="Truth of the mock grid (YAML); implies --mock.")
@click.option("--load", help="Load of the mock grid: loaded (default) or unloaded.")
@click.option("--seed", type=click.IntRange(min=0), help="Seed of the mock grid (default 1).")
@click.option(
    "--launcher",
    type=click.Choice(["mpiexec", "ssh", "slurm"]),
    default="mpiexec",
    show_default=True,
    help="mpiexec: ranks on this machine; ssh: on all hosts of the pool that pass a check; slurm: on nodes that Slurm "
    "gives, or those of the allocation we are in.",
)
@with_slurm
@click.option("-n", "--ranks", type=click.IntRange(min=1), help="Use exactly so many ranks.")
@click.option("--max-ranks", type=click.IntRange(min=1), help="Use so many ranks at most.")
@click.option("-H", "--host", "hosts", metavar="LIST", help="Pool: names, brackets, slots (a:2,node[01-08]).")
@click.option(
    "--hostfile", metavar="FILE", help="Pool from a file: 'host', 'host slots=4' or 'host:4' a line."
)
@click.option("-w", "--include", metavar="LIST", help="Keep only these hosts of the grid (node[01-08]).")
@click.option("-x", "--exclude", metavar="LIST", help="Leave these hosts out.")
@click.option(
    "-t", "--time-limit", metavar="TIME", help="End the run after 90 (s), 1:30:00, 15m or 2h; exit code 124."
)
@with_resilience
@with_adaptation
@click.option(
    "--scheduler",
    type=click.Choice(["apples", "paper", "default", "smart-user"]),
    default="apples",
    show_default=True,
    help="apples: the planner; paper: Wolski et al. 2000 line for line; default: all hosts, equal slabs; "
    "smart-user: right number of hosts, equal slabs.",
)
@click.option("--model", type=click.Choice(["exchange", "paper"]), help="Performance model.")
@click.option("--counts", type=click.Choice(["every", "even"]), help="Host counts to try.")
@click.option("--allocation", type=click.Choice(["minimax", "lp"]), help="How slab heights are found.")
@click.option(
    "--rank-order", type=click.Choice(["tree", "desirability"]), help="Order of the hosts in the chain."
)
@click.option("--improve/--no-improve", default=None, help="Look for better chains near the best candidates.")
@click.option(
    "--quantile",
    type=click.FloatRange(0.01, 0.99),
    help="How sure the run time must be; 0.5 takes forecasts as they are.",
)
@click.option("--tolerance", type=click.FloatRange(0.0, 1.0), help="LP: time balance tolerance.")
@click.option(
    "--allow-spill",
    is_flag=True,
    default=None,
    help="Let slabs outgrow memory if nothing else holds the work.",
)
@click.option(
    "--policy",
    metavar="NAME",
    help="Take turns with other jobs on these hosts: fcs, gang, batch, spin-block, message-driven, uncoordinated.",
)
@click.option(
    "--monitor", is_flag=True, help="Measure how ranks compute and wait, and print the efficiencies."
)
@click.option(
    "--wait",
    type=click.Choice(["block", "poll", "mpi"]),
    help="How ranks wait for messages: block lets others use the core; mpi (default) as the library does.",
)
@click.option(
    "--queue", is_flag=True, help="Run in the queue of `apples manager --queue`, when it is our turn."
)
@click.option("--detach", is_flag=True, help="With --queue: print the job's number and do not wait.")
@click.option("--project", metavar="NAME", help="With --queue: project the job is counted to.")
@click.option("--dry-run", is_flag=True, help="Plan, print, do not run.")
@click.option("--explain", is_flag=True, help="Say why each host was taken or left.")
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="One JSON document on stdout; the program's output goes to stderr.",
)
@click.option("--json-lines", is_flag=True, help="One JSON event a line on stdout, the document last.")
@click.option("-l", "--label", is_flag=True, help="Prefix the program's lines with their rank.")
@click.option("-v", "--verbose", is_flag=True, help="Show the command line and other details.")
@click.option("-q", "--quiet", is_flag=True, help="Only errors and the program's own output.")
@click.version_option(package_name="apples-grid", prog_name="apples-run")
@click.pass_context
def run(context: click.Context, /, size: int, **options: Any) -> int:
    """Run an MPI stencil application of SIZE rows on the hosts that will end it soonest.

    Measures what the hosts can deliver now, chooses hosts, rank order and slab heights, runs, and says how
    good the prediction was. Without a grid file the pool is this machine. With --nws what the hosts can deliver
    is asked of a weather service; where that does not answer, it is measured here as far as it can be.
    """
    from apples.cli import queued_run
    from apples.cli.assemble import assemble

    queued_run.check(options)
    from_environment = context.get_parameter_source("nws") is click.core.ParameterSource.ENVIRONMENT
    if from_environment and (options["mock"] or options["scenario"] is not None):
        # a service that is meant for all runs is not meant for simulated ones
        options["nws"] = None
    console = Console(quiet=options["quiet"], verbose=options["verbose"])
    if options["queue"]:
        return queued_run.run_queued(context, size, options, console)
    with ExitStack() as stack:
        session = stack.enter_context(_session(options, console)) if options["policy"] else None
        job = None
        if options["monitor"] or options["wait"] is not None:
            job = stack.enter_context(_monitored(options, session)) if not options["dry_run"] else None
        return _plan_and_run(assemble(size, options, console, session, job), options, console)


def _monitored(options: dict[str, Any], session: SharingSession | None) -> MonitoredJob:
    """The monitor of this run; raises `ConfigError` where it can have none, `MonitorError` where none can be built."""
    from apples.coscheduling.events import Wait
    from apples.errors import ConfigError
    from apples.monitoring.job import MonitoredJob

    wanted = "--monitor" if options["monitor"] else f"--wait {options['wait']}"
    problems = [
        f"{wanted} is for real ranks, the mock grid has none; leave {flag} out"
        for name, flag in (("mock", "--mock"), ("scenario", "--scenario"))
        if options[name]
    ]
    if options["wait"] is not None and session is not None:
        problems.append(
            f"--wait {options['wait']} and --policy exclude each other: under a policy the node manager says how "
            "ranks wait"
        )
    if problems:
        raise ConfigError(problems)
    wait = {"block": Wait.SPIN_BLOCK, "poll": Wait.POLL}.get(options["wait"] or "mpi")
    # Under a policy the job has a name already, by which its ranks are registered.
    return MonitoredJob(None if session is None else session.job, wait=wait)


def _session(options: dict[str, Any], console: Console) -> SharingSession:
    """The turns this run takes; raises `ConfigError` where it cannot take any."""
    from apples.coscheduling.policies import policy_kind
    from apples.daemons.session import SharingSession
    from apples.errors import ConfigError

    kind = policy_kind(options["policy"])
    for name, flag in (("mock", "--mock"), ("scenario", "--scenario")):
        if options[name]:
            raise ConfigError(f"--policy {kind.name} is for real hosts; leave {flag} out")
    return SharingSession(kind, console.note, run=not options["dry_run"])


def _plan_and_run(assembled: tuple[Agent, RunRequest], options: dict[str, Any], console: Console) -> int:
    from apples.cli.places import open_history
    from apples.run.checkpoints import Checkpoints
    from apples.run.enactor import Enactor

    agent, request = assembled
    events = _Events(options["json_lines"])
    checkpoints = Checkpoints(request.resilience, agent.platform, open_history())
    enactor = Enactor(agent, checkpoints, console.note, events.emit)
    decision = enactor.decide(request)
    document = decision.document()
    events.emit("plan", document)
    if options["verbose"]:
        console.detail("command: " + " ".join(agent.command_line(request, decision)))
    if options["dry_run"]:
        _print_plan(document, options, console)
        return 0
    return _run(enactor, (request, decision), options, events, console)


def _run(
    enactor: Enactor,
    what: tuple[RunRequest, Decision],
    options: dict[str, Any],
    events: _Events,
    console: Console,
) -> int:
    from apples.cli.report import explanation_lines, run_lines

    enacted = enactor.run(*what)
    outcome = enacted.record.outcome
    assert outcome is not None
    document = enacted.document()
    events.emit("run", document)
    if options["as_json"]:
        click.echo(json.dumps(document))
    elif not options["json_lines"]:
        if options["explain"]:
            console.lines(explanation_lines(document))
        console.lines(run_lines(document))
        if options["monitor"] and "monitor" in document:
            from apples.cli.report import monitor_lines

            console.lines(monitor_lines(document["monitor"]))
        if "sharing" in document:
            from apples.cli.sharingreport import sharing_lines

            console.lines(sharing_lines(document["sharing"]["ranks"]))
    if outcome.message and not outcome.finished:
        click.echo(f"apples-run: {outcome.message}", err=True)
    return outcome.exit_code


def _print_plan(document: dict[str, Any], options: dict[str, Any], console: Console) -> None:
    from apples.cli.report import explanation_lines, plan_lines

    if options["as_json"]:
        click.echo(json.dumps(document))
        return
    if options["json_lines"]:
        return
    lines = plan_lines(document)
    if options["explain"]:
        lines += explanation_lines(document)
    click.echo("\n".join(lines))


class _Events:
    """`--json-lines`: what happened, one document a line, as it happens."""

    def __init__(self, wanted: bool) -> None:
        self._wanted = wanted

    def emit(self, event: str, document: dict[str, Any]) -> None:
        """One event, flushed at once."""
        if self._wanted:
            click.echo(json.dumps({"event": event, **document}))
            sys.stdout.flush()


def main() -> None:
    """Entry point of `apples-run`."""
    run_program(run, "apples-run")
