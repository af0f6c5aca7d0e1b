"""The command `nws`: options in, the weather called, text or JSON out.

Commands are loaded when they are named, and what they need when they run, so that `nws --help` starts fast.
Every `WeatherError` is one message on stderr and the exit code of its class; Ctrl-C exits 130.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

import click

from nws.base.errors import WeatherError

#: Command → what `nws --help` says of it; the module of that name is imported when the command is called.
_COMMANDS = {
    "measure": "Measure CPU, memory and network of this host, and keep the values.",
    "show": "List all series, or the hosts of a service: last values, ages, what is stale or lost.",
    "forecast": "Forecast the next value of series.",
    "pairs": "Latency and bandwidth between hosts, as a matrix or a list.",
    "export": "Print all samples of series as CSV.",
    "insert": "Add measurements from a CSV file.",
    "score": "Score the forecasters on a file of measurements.",
    "server": "Serve the weather of many hosts: name server, memory and forecaster.",
    "sensor": "Measure this host for a service until stopped.",
    "token": "Make a token for a service.",
    "forget": "Make a service forget a host.",
}


class _Lazy(click.Group):
    """A group whose commands are modules of this package, each with a command of the module's name."""

    def list_commands(self, context: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in _COMMANDS:
            return None
        command = getattr(import_module(f"nws.cli.{name}"), name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="apples-grid")
def cli() -> None:
    """Network Weather Service: measure what hosts deliver, keep it, forecast it."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Entry point; `arguments` default to the command line. Exit codes are those of `nws.base.errors`."""
    try:
        code = cli.main(args=None if arguments is None else list(arguments), standalone_mode=False)
        sys.stdout.flush()
    except WeatherError as error:
        click.echo(f"nws: {error}", err=True)
        sys.exit(error.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("nws: interrupted", err=True)
        sys.exit(130)
    except BrokenPipeError:
        # the reader has seen enough (`nws show | head`); what is still buffered must not complain at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        # the disk that stdout goes to is full, and the like: the reason and the file say it all
        click.echo(f"nws: {error}", err=True)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    sys.exit(code if isinstance(code, int) else 0)
