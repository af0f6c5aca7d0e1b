"""The declared experiments, and the runner of all of them. A module is imported only when its experiment runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any, cast

from apples.errors import ConfigError
from apples_experiments.result import Progress, Result
from apples_experiments.settings import read_settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """One published row, as declared in ``configs/catalogue.yaml``. That file explains the keys."""

    id: str
    title: str
    source: str
    runtime_s: float | None
    function: str
    case: Mapping[str, str | int] = field(default_factory=dict)
    data: str | None = None
    choices: str | None = None

    def run(self, progress: Progress, chosen: Mapping[str, Any] | None = None) -> Result:
        """Return the rows.

        Args:
            progress: receives one line for each step.
            chosen: values that replace settings, by option name.

        Raises:
            ConfigError: an option is chosen, and the experiment accepts none.
        """
        if not chosen:
            return cast(Result, _load(self.function)(progress, **self.case))
        if self.choices is None:
            others = ", ".join(other.id for other in experiments().values() if other.choices is not None)
            options = ", ".join(f"--{option}" for option in chosen)
            raise ConfigError(f"{self.id} runs as its settings say; {options} is for {others}")
        choices = _load(self.choices)(**chosen)
        return cast(Result, _load(self.function)(progress, choices, **self.case))

    def document(self, result: Result) -> dict[str, Any]:
        """Return the document of ``apples experiment ID --json``."""
        return {"id": self.id, "title": self.title, **result.as_json()}


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogueFile:
    """Contents of ``configs/catalogue.yaml``."""

    experiments: tuple[Experiment, ...]


@cache
def experiments() -> dict[str, Experiment]:
    """Return all experiments by id, in their order."""
    return {entry.id: entry for entry in read_settings("catalogue", CatalogueFile).experiments}


def find(name: str) -> Experiment:
    """Return the experiment with this id, in either case.

    Raises:
        ConfigError: there is none; the message lists the legal ids.
    """
    experiment = experiments().get(name.upper())
    if experiment is None:
        raise ConfigError(f"unknown experiment {name!r}; legal are {', '.join(experiments())}")
    return experiment


def run(name: str, progress: Progress, chosen: Mapping[str, Any] | None = None) -> Result:
    """Run one experiment by its id; the arguments are those of `Experiment.run`."""
    return find(name).run(progress, chosen)


def _load(reference: str) -> Callable[..., Any]:
    module, _, name = reference.partition(":")
    return cast(Callable[..., Any], getattr(import_module(f"{__package__}.{module}"), name))
