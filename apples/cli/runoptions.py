"""Options of `apples-run` as frozen records: pool, weather, plan, run, sharing and output.

Every command that opens a pool uses these records; `only` of `with_options` chooses the options that it offers.
"""

from __future__ import annotations

from dataclasses import field, fields, replace
from typing import TYPE_CHECKING, Any

import click

from apples import applications
from apples.cli.optiongroups import headed, options_record
from nws.base.errors import ConfigError

if TYPE_CHECKING:
    from apples.model.limits import Limits
    from apples.platforms.platform import Platform

#: The application of `apples-run SIZE`, and the others of this package.
_DEFAULT, _OTHERS = applications.names()[0], ", ".join(applications.names()[1:])

#: Launcher without --launcher: this machine.
DEFAULT_LAUNCHER = "mpiexec"

#: Value of --grid for the pool of the weather service.
SERVICE_GRID = "nws"

_hosts, _slurm, _mock = headed("Which hosts"), headed("Slurm"), headed("Mock grid")
_weather, _plan, _run = headed("Forecasts"), headed("Plan"), headed("Run")
_limits = headed("Limits")
_safety, _adapt = headed("Checkpoints and attempts"), headed("Adaptation")
_sharing, _output = headed("Sharing hosts"), headed("Output")


@options_record
class PoolOptions:
    """Hosts that the user allows, and the launcher that reaches them.

    grid_file : Hosts and links (YAML); nws: all hosts of the weather service. Default: this machine.
    hosts : Pool: names, brackets, slots (a:2,node[01-08]).
    hostfile : Pool from a file: 'host', 'host slots=4' or 'host:4' a line.
    include : Keep only these hosts of the pool (node[01-08]).
    exclude : Leave these hosts out.
    launcher : mpiexec: ranks on this machine; ssh: on all hosts of the pool that pass a check; slurm: on nodes of a
        new or the current Slurm allocation; or another installed platform.
    mpi : MPI of the program: mpich, openmpi, intelmpi, or the path of an mpiexec (default: found from the program).
    mpi_args : More arguments of mpiexec or srun, quoted as for a shell.
    launcher_options : Option of the launcher; may be repeated.
    partition : Partition (default: the cluster's default).
    account : Account charged for the allocation.
    qos : Quality of service.
    reservation : Use nodes of this reservation.
    constraint : Use nodes with these features (a&b, a|b).
    nodes : Number of nodes to plan over.
    exclusive : Share the nodes with no other job.
    immediate : Give up if the nodes are not allocated within TIME.
    mock : Run on the mock grid, in simulated time.
    scenario : True speeds and loads of the mock grid (YAML); implies --mock.
    load : Load of the mock grid: loaded (default) or unloaded.
    seed : Seed of the mock grid (default 1).
    """

    grid_file: str | None = _hosts("-g", "--grid", metavar="FILE")
    hosts: str | None = _hosts("-H", "--host", metavar="LIST")
    hostfile: str | None = _hosts("--hostfile", metavar="FILE")
    include: str | None = _hosts("-w", "--include", metavar="LIST")
    exclude: str | None = _hosts("-x", "--exclude", metavar="LIST")
    launcher: str = _hosts("--launcher", metavar="NAME", default=DEFAULT_LAUNCHER, show_default=True)
    mpi: str | None = _hosts("--mpi", metavar="NAME|PATH")
    mpi_args: str | None = _hosts("--mpi-args", metavar="TEXT")
    launcher_options: tuple[str, ...] = _hosts(
        "--launcher-option", multiple=True, default=(), metavar="KEY=VALUE"
    )
    partition: str | None = _slurm("--partition", metavar="NAME")
    account: str | None = _slurm("--account", metavar="NAME")
    qos: str | None = _slurm("--qos", metavar="NAME")
    reservation: str | None = _slurm("--reservation", metavar="NAME")
    constraint: str | None = _slurm("--constraint", metavar="LIST")
    nodes: str | None = _slurm("--nodes", metavar="MIN[-MAX]")
    exclusive: bool = _slurm("--exclusive", is_flag=True)
    immediate: str | None = _slurm("--immediate", metavar="TIME")
    mock: bool = _mock("--mock", is_flag=True)
    scenario: str | None = _mock("--scenario", metavar="FILE")
    load: str | None = _mock("--load", metavar="NAME")
    seed: int | None = _mock("--seed", type=click.IntRange(min=0))

    @property
    def platform(self) -> str:
        """Return the name of the platform that the options select."""
        return "mock" if self.mock or self.scenario is not None else self.launcher

    @property
    def kind(self) -> type[Platform]:
        """Return the platform's class; `Platform` itself for one that cannot be found."""
        from apples.platforms.finding import find_platform
        from apples.platforms.platform import Platform

        try:
            return find_platform(self.platform)
        except ConfigError:
            # Opening the platform reports this, together with the problems of other options.
            return Platform


@options_record
class WeatherOptions:
    """Weather service that forecasts the hosts of the pool.

    nws : Plan from this weather service (env APPLES_NWS).
    nws_token_file : File of mode 0600 with its token (env NWS_TOKEN_FILE).
    nws_ca : Trusted certificates, for https (env NWS_CA).
    nws_stale_after : Ignore forecasts of the service that are older (default 5m).
    """

    nws: str | None = _weather("--nws", metavar="URL", envvar="APPLES_NWS")
    nws_token_file: str | None = _weather("--nws-token-file", metavar="FILE", envvar="NWS_TOKEN_FILE")
    nws_ca: str | None = _weather("--nws-ca", metavar="FILE", envvar="NWS_CA")
    nws_stale_after: str | None = _weather("--nws-stale-after", metavar="TIME")


@options_record
class PlanOptions:
    """Choices of the planner; None keeps the scheduler's preset.

    scheduler : apples: the planner; paper: Wolski et al. 2000 line for line; default: all hosts, equal slabs;
        smart-user: right number of hosts, equal slabs.
    ranks : Use exactly this many ranks.
    max_ranks : Use at most this many ranks.
    model : Performance model.
    counts : Host counts to try.
    allocation : Method that finds slab heights.
    rank_order : Order of the hosts in the chain.
    improve : Search for better chains near the best candidates.
    horizon : Forecast CPU shares over the length of the run, or for the next measurement.
    quantile : Quantile of the run time to minimise; 0.5 uses the forecasts without their errors.
    tolerance : Time balance tolerance of the linear program.
    allow_spill : Let slabs exceed memory if no other plan holds the work.
    cut : Cut of a program that takes two axes; auto: the one that ends soonest.
    """

    scheduler: str = _plan(
        "--scheduler",
        type=click.Choice(["apples", "paper", "default", "smart-user"]),
        default="apples",
        show_default=True,
    )
    ranks: int | None = _plan("-n", "--ranks", type=click.IntRange(min=1))
    max_ranks: int | None = _plan("--max-ranks", type=click.IntRange(min=1))
    model: str | None = _plan("--model", type=click.Choice(["exchange", "paper"]))
    counts: str | None = _plan("--counts", type=click.Choice(["every", "even"]))
    allocation: str | None = _plan("--allocation", type=click.Choice(["pulp", "minimax", "lp"]))
    rank_order: str | None = _plan("--rank-order", type=click.Choice(["tree", "desirability"]))
    improve: bool | None = _plan("--improve/--no-improve")
    horizon: str | None = _plan("--horizon", type=click.Choice(["run", "next"]))
    quantile: float | None = _plan("--quantile", type=click.FloatRange(0.01, 0.99))
    tolerance: float | None = _plan("--tolerance", type=click.FloatRange(0.0, 1.0))
    allow_spill: bool | None = _plan("--allow-spill", is_flag=True, flag_value=True)
    cut: str | None = _plan("--cut", type=click.Choice(["auto", "slabs", "rectilinear", "columns"]))

    @property
    def overrides(self) -> dict[str, Any]:
        """Return the fields of `PlanningOptions` that the user set."""
        given = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "scheduler"}
        return {name: value for name, value in given.items() if value is not None}


@options_record
class LimitOptions:
    """Limits on the choice of hosts; a selector is a site, a host or a bracket expression.

    at_most : Use at most N hosts of a site or of some hosts (lyon=4, node[01-08]=2); may be repeated.
    licences : Run at most N ranks there; may be repeated.
    together : Use all of these hosts or none; may be repeated.
    apart : Use at most one of these hosts; may be repeated.
    price : Money or energy for an hour of each host; may be repeated, the last that fits counts.
    budget : Most that the run may cost.
    deadline : Plan only runs that take at most 90 (s), 1:30:00, 15m or 2h.
    """

    at_most: tuple[str, ...] = _limits("--at-most", multiple=True, default=(), metavar="SELECTOR=N")
    licences: tuple[str, ...] = _limits("--licences", multiple=True, default=(), metavar="SELECTOR=N")
    together: tuple[str, ...] = _limits("--together", multiple=True, default=(), metavar="SELECTOR")
    apart: tuple[str, ...] = _limits("--apart", multiple=True, default=(), metavar="SELECTOR")
    price: tuple[str, ...] = _limits("--price", multiple=True, default=(), metavar="SELECTOR=AMOUNT")
    budget: str | None = _limits("--budget", metavar="AMOUNT")
    deadline: str | None = _limits("--deadline", metavar="TIME")

    def read(self) -> Limits:
        """Return the limits; raise `ConfigError` with every problem."""
        from apples.model.limits import parse_limits

        given = {each.name.replace("_", "-"): getattr(self, each.name) for each in fields(self)}
        several = {name: (x,) if isinstance(x, str) else x or () for name, x in given.items()}
        return parse_limits(several)


@options_record
class LaunchOptions:
    """The program to run, its limits, and the actions when the run fails or load changes.

    settings : Set an option of the application; may be repeated.
    time_limit : End the run after 90 (s), 1:30:00, 15m or 2h; exit code 124.
    attempts : Number of attempts when hosts are lost (default 3 over several hosts, 1 on this machine).
    checkpoint : Write checkpoints to FILE, or to a temporary one (auto, the default over ssh).
    checkpoint_every : Interval: N iterations, or 30s, or 5m; auto: the interval that minimises the expected run time.
    mtbf : Mean time between failures of one host (default: from past runs).
    resume : Continue from the checkpoint in --checkpoint FILE, with a new plan.
    adapt : When load changes during the run: slabs moves rows between ranks; hosts may also write a checkpoint and
        continue on other hosts.
    adapt_settings : Thresholds and intervals of --adapt (YAML).
    """

    app: str | None = _run(
        "-a",
        "--app",
        metavar="NAME|FILE",
        help=f"Application: {_DEFAULT} (default), {_OTHERS}, one of a grid file, or your own program: an application "
        "file (YAML) or its name.",
    )
    settings: tuple[str, ...] = _run("-s", "--set", multiple=True, default=(), metavar="KEY=VALUE")
    time_limit: str | None = _run("-t", "--time-limit", metavar="TIME")
    attempts: int | None = _safety("--attempts", type=click.IntRange(min=1))
    checkpoint: str | None = _safety("--checkpoint", metavar="FILE|auto|off")
    checkpoint_every: str | None = _safety("--checkpoint-every", metavar="auto|N|TIME")
    mtbf: str | None = _safety("--mtbf", metavar="TIME")
    resume: bool = _safety("--resume", is_flag=True)
    adapt: str = _adapt(
        "--adapt", type=click.Choice(["off", "slabs", "hosts"]), default="off", show_default=True
    )
    adapt_settings: str | None = _adapt("--adapt-settings", metavar="FILE")


@options_record
class SharingOptions:
    """How the run shares its hosts with other jobs.

    policy : Share hosts with other jobs. auto: joins the node managers of its hosts (with Slurm inside an
        allocation); else ranks that share CPUs leave them to others while they wait. none: no sharing. fcs, gang,
        batch, spin-block, share-by-need, message-driven, uncoordinated: coschedule (env APPLES_POLICY).
    monitor : Measure how ranks compute and wait, and print the efficiencies.
    wait : How ranks wait for messages: block frees the core for other processes, adaptive does so where that is
        measured to be faster; mpi as the library does.
    queue : Run as a job of the queue of `apples manager --queue`.
    detach : With --queue: print the job's number and return.
    project : With --queue: project that the job is charged to.
    oversubscribe : With --queue: as of `apples submit`, duty cycles as predicted.
    """

    policy: str = _sharing(
        "--policy", metavar="NAME", envvar="APPLES_POLICY", default="auto", show_default=True
    )
    monitor: bool = _sharing("--monitor", is_flag=True)
    wait: str | None = _sharing("--wait", type=click.Choice(["block", "adaptive", "poll", "mpi"]))
    queue: bool = _sharing("--queue", is_flag=True)
    detach: bool = _sharing("--detach", is_flag=True)
    project: str | None = _sharing("--project", metavar="NAME")
    oversubscribe: bool = _sharing("--oversubscribe", is_flag=True)

    @property
    def coscheduled(self) -> str | None:
        """Return the policy that the user named, None for `auto` and `none`."""
        return None if self.policy in ("auto", "none") else self.policy


@options_record
class OutputOptions:
    """Text or documents that the command prints.

    dry_run : Plan and print; start no program.
    explain : Print why each host was taken or left out.
    as_json : One JSON document on stdout; the program's output goes to stderr.
    json_lines : One JSON event a line on stdout, the document last.
    label : Prefix the program's lines with their rank.
    """

    dry_run: bool = _output("--dry-run", is_flag=True)
    explain: bool = _output("--explain", is_flag=True)
    as_json: bool = _output("--json", is_flag=True)
    json_lines: bool = _output("--json-lines", is_flag=True)
    label: bool = _output("-l", "--label", is_flag=True)


@options_record
class RunOptions:
    """All options of one `apples-run` call."""

    pool: PoolOptions = field(default_factory=PoolOptions)
    weather: WeatherOptions = field(default_factory=WeatherOptions)
    plan: PlanOptions = field(default_factory=PlanOptions)
    limits: LimitOptions = field(default_factory=LimitOptions)
    run: LaunchOptions = field(default_factory=LaunchOptions)
    sharing: SharingOptions = field(default_factory=SharingOptions)
    output: OutputOptions = field(default_factory=OutputOptions)

    def for_context(self, context: click.Context) -> RunOptions:
        """Return these options; APPLES_NWS, which is meant for real hosts, does not count for simulated ones."""
        from_environment = context.get_parameter_source("nws") is click.core.ParameterSource.ENVIRONMENT
        if not from_environment or self.pool.kind.shares_hosts:
            return self
        return replace(self, weather=replace(self.weather, nws=None))
