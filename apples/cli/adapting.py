"""`--adapt`: from the options of a run to who watches it. Options in, an controller for each attempt out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from apples.adapting.progress import AdaptationController
    from apples.adapting.settings import AdaptSettings
    from apples.launching.launcher import Notify
    from apples.platforms.platform import Platform
    from apples.run.agent import Decision, RunRequest
    from apples.run.resilience import Resilience

    MakeController = Callable[[RunRequest, Decision], AdaptationController]

#: What `--adapt` may be, and what it is without.
CHOICES, DEFAULT = ("off", "slabs", "hosts"), "off"


def with_adaptation(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of a command that may adapt its run."""
    command = click.option(
        "--adapt-settings",
        metavar="FILE",
        help="With --adapt: how sure, how often and how dear changes may be (YAML).",
    )(command)
    return click.option(
        "--adapt",
        type=click.Choice(CHOICES),
        default=DEFAULT,
        show_default=True,
        help="While it runs: slabs moves rows between ranks where load has come or gone; hosts may also end it "
        "with a checkpoint and go on elsewhere.",
    )(command)


def read(options: Mapping[str, Any], resilience: Resilience | None) -> AdaptSettings | None:
    """What the user wants of adaptation, None for nothing; raises `ConfigError`.

    resilience : how the run is kept, None where that could not be found out
    """
    from apples.adapting.settings import AdaptSettings
    from apples.errors import ConfigError
    from apples.model.config import find_config
    from nws.base.reader import load_yaml

    file, adapt = options["adapt_settings"], options["adapt"]
    if adapt == DEFAULT:
        if file is not None:
            raise ConfigError(f"--adapt-settings {file}: needs --adapt slabs or --adapt hosts")
        return None
    if adapt == "hosts" and resilience is not None and resilience.file is None and not resilience.simulated:
        raise ConfigError("--adapt hosts needs a checkpoint to go on from; leave --checkpoint off out")
    return AdaptSettings() if file is None else load_yaml(find_config(file), AdaptSettings)


def controllers(
    platform: Platform, wanted: AdaptSettings | None, options: Mapping[str, Any], notify: Notify
) -> MakeController | None:
    """Who watches each attempt of a run, None where nobody does."""
    if wanted is None:
        return None
    from apples.adapting.hosts import HostPolicy
    from apples.run.adaptation import HostController, Pool, SlabController, adaptation_inputs

    hosts = HostPolicy(wanted.hosts) if options["adapt"] == "hosts" else None

    def watch(request: RunRequest, decision: Decision) -> AdaptationController:
        slabs = SlabController(adaptation_inputs(decision, request.planning), wanted, notify)
        if hosts is None:
            return slabs
        pool = Pool(
            decision=decision,
            options=request.planning,
            snapshot=lambda: platform.snapshot(_unheard),
            change_s=0.0 if decision.interval is None else 2.0 * decision.interval.cost_s,
            beside=platform.name != "mock",
        )
        return HostController(slabs, hosts, pool, notify)

    return watch


def _unheard(line: str) -> None:
    """Looks at the pool are not told line by line."""
