"""The command `nws`: parse options, call the weather service or its store, print text or JSON.

Commands and their imports are loaded on use, so that `nws --help` starts fast.
"""

from collections.abc import Sequence
from typing import NoReturn

import click

from nws.base.command import Extension, LazyGroup, run_program

#: One-line help by command; the command is in the module of its name, or in that of `_MODULES`.
_COMMANDS = {
    "measure": "Measure CPU, memory and network of this host, and store the values.",
    "show": "List all series, or the hosts of a service: last values, ages, stale and lost ones.",
    "forecast": "Forecast the next value of series.",
    "pairs": "Latency and bandwidth between hosts, as a matrix or a list.",
    "export": "Print all samples of series as CSV.",
    "insert": "Add measurements from a CSV file.",
    "check": "Read all of a store, and print what is damaged.",
    "repair": "Keep what is sound of a damaged store.",
    "backup": "Copy a store while it is in use.",
    "score": "Score the forecasters on a file of measurements.",
    "server": "Serve the weather of many hosts: name server, memory and forecaster.",
    "sensor": "Measure this host for a service until stopped.",
    "token": "Make a token for a service.",
    "forget": "Make a service forget a host.",
}
_MODULES = {
    **dict.fromkeys(("check", "repair", "backup"), "storecare"),
    **dict.fromkeys(("token", "forget"), "administration"),
}
#: Commands of the distribution `apples-deploy`.
_DEPLOYING = {
    "deploy": "Put sensors, and a server, on hosts over ssh.",
    "units": "Print systemd's unit files of server and sensor.",
}


@click.group(
    cls=LazyGroup,
    package="nws.cli",
    lazy=_COMMANDS | _DEPLOYING,
    modules=_MODULES,
    elsewhere={name: Extension("nws.commands", name, "./deploy") for name in _DEPLOYING},
)
def cli() -> None:
    """Network Weather Service: measure, store and forecast the performance of hosts."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run `nws` as a program; `arguments` replaces `sys.argv`."""
    run_program(cli, "nws", arguments)
