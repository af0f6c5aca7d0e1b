"""`--adapt`: read its settings, and build the controller that watches each attempt of a run."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from apples.cli.runoptions import LaunchOptions

if TYPE_CHECKING:
    from apples.adapting.progress import AdaptationController
    from apples.adapting.settings import AdaptSettings
    from apples.launching.launcher import Notify
    from apples.platforms.platform import Platform
    from apples.run.agent import Decision
    from apples.run.request import Resilience, RunRequest

    MakeController = Callable[[RunRequest, Decision], AdaptationController]


def adapt_settings(options: LaunchOptions, resilience: Resilience | None) -> AdaptSettings | None:
    """Return the settings of adaptation, None for no adaptation; raise `ConfigError`.

    resilience : None if its options are wrong
    """
    from apples.adapting.settings import AdaptSettings
    from apples.errors import ConfigError
    from apples.model.config import find_config
    from nws.base.reader import load_yaml

    file = options.adapt_settings
    if options.adapt == "off":
        if file is not None:
            raise ConfigError(f"--adapt-settings {file}: needs --adapt slabs or --adapt hosts")
        return None
    without_file = resilience is not None and resilience.file is None and not resilience.simulated
    if options.adapt == "hosts" and without_file:
        raise ConfigError("--adapt hosts needs a checkpoint to continue from; leave --checkpoint off out")
    return AdaptSettings() if file is None else load_yaml(find_config(file), AdaptSettings)


def controllers(
    platform: Platform, settings: AdaptSettings | None, notify: Notify, *, hosts: bool
) -> MakeController | None:
    """Return a function that builds the controller of an attempt, None without adaptation.

    hosts : the run may continue on other hosts
    """
    if settings is None:
        return None
    from apples.adapting.hosts import HostPolicy
    from apples.run.adaptation import ControllerInputs, HostController, SlabController, adaptation_inputs

    policy = HostPolicy(settings.hosts) if hosts else None

    def watch(request: RunRequest, decision: Decision) -> AdaptationController:
        slabs = SlabController(adaptation_inputs(decision, request.planning), settings, notify)
        if policy is None:
            return slabs
        pool = ControllerInputs(
            decision=decision,
            options=request.planning,
            snapshot=lambda: platform.snapshot(lambda line: None),
            change_s=0.0 if decision.interval is None else 2.0 * decision.interval.cost_s,
            beside=not platform.simulated,
        )
        return HostController(slabs, policy, pool, notify)

    return watch
