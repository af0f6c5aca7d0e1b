"""Options and steps that the commands `nws deploy` and `apples deploy` share, and the command `units` of both."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from apples_deploy.deployment import HostDeployment, HostResult, Means, raise_errors
from apples_deploy.records import DaemonRole
from apples_deploy.units import SCOPES, Daemon, UnitPlace, unit, write_units
from apples_deploy.wheel import package
from nws.base.command import FILE
from nws.base.errors import ConfigError, UsageError
from nws.base.hostlist import expand, parse_hosts, read_hostfile
from nws.base.notes import step
from nws.base.reader import read_yaml

#: Exit code of --check if a host differs.
DIFFERS = 1

_OPTIONS = (
    click.argument("hosts", nargs=-1),
    click.option("--hostfile", type=FILE, help="Hosts from a file, one a line."),
    click.option(
        "--python", default="python3", show_default=True, help="Python of the hosts, 3.11 or newer."
    ),
    click.option(
        "--prefix",
        help="Directory on the hosts, where ~ and {host} are replaced; default: /opt/apples-grid for root, else "
        "~/.local/share/apples-grid. On a shared file system the package is installed once.",
    ),
    click.option("--wheel", type=FILE, help="Package to install; default: this one."),
    click.option(
        "--wheelhouse", metavar="DIR|URL", help="Dependencies, as hosts see them, instead of an index."
    ),
    click.option(
        "--index-url",
        metavar="URL",
        envvar="APPLES_INDEX_URL",
        show_envvar=True,
        help="Package index of the dependencies; with a password better by the variable.",
    ),
    click.option(
        "--installed", metavar="DIR", help="Install nothing: use this environment, which hosts have."
    ),
    click.option(
        "--no-systemd", is_flag=True, help="Start daemons in the background also where systemd runs."
    ),
    click.option("--check", is_flag=True, help="Only compare; exit code 1 if a host differs."),
    click.option("--remove", is_flag=True, help="Stop the daemons and remove all but their data."),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployRequest:
    """Values of the shared options."""

    hosts: tuple[str, ...]
    hostfile: Path | None
    python: str
    prefix: str | None
    wheel: Path | None
    wheelhouse: str | None
    index_url: str | None
    installed: str | None
    no_systemd: bool
    check: bool
    remove: bool

    def names(self, *others: str | None) -> list[str]:
        """Return the hosts, each once; raises `ConfigError` or `UsageError`. others : hosts of other options"""
        for other in others:
            if other is not None and expand(other) != (other,):
                raise UsageError(f"{other}: expected one host")
        found = [one.name for text in self.hosts for one in parse_hosts(text, where="HOSTS")]
        if self.hostfile is not None:
            found += [one.name for one in read_hostfile(self.hostfile)]
        if not found and not any(others):
            raise UsageError("no hosts; name them (alpha node[01-08]), or give --hostfile")
        return list(dict.fromkeys(found))

    def deployment(self) -> HostDeployment:
        """Return the deployment; builds the package. Raises `UsageError`."""
        if self.check and self.remove:
            raise UsageError("--check and --remove exclude each other; keep one")
        if self.prefix is not None and not (
            self.prefix.startswith(("/", "~/")) and self.prefix.isprintable()
        ):
            raise UsageError(f"--prefix {self.prefix}: expected a path from / or ~/, as hosts see it")
        if self.installed is not None:
            if self.wheel or self.wheelhouse or self.index_url:
                raise UsageError(
                    "--installed installs nothing; leave out --wheel, --wheelhouse and --index-url"
                )
            chosen, content = None, b""
        else:
            chosen, content = package(
                self.wheel, wheelhouse=self.wheelhouse, index=self.index_url, python=self.python
            )
        means = Means(
            python=self.python,
            prefix=self.prefix,
            package=chosen,
            wheel=content,
            installed=self.installed,
            systemd=not self.no_systemd,
        )
        return HostDeployment(means, log=step)

    def carry_out(
        self, deployment: HostDeployment, phases: Sequence[dict[str, tuple[DaemonRole, ...]]]
    ) -> list[HostResult]:
        """Compare, apply or remove on the hosts of each phase; return all results. Raises `DeploymentFailed`.

        A phase begins when the one before has succeeded; to remove, the order is reversed, and errors wait.
        """
        results: list[HostResult] = []
        for roles in reversed(phases) if self.remove else phases:
            if self.check:
                results += deployment.compare(roles)
            elif self.remove:
                results += deployment.remove(roles)
            else:
                results += deployment.apply(roles)
                raise_errors(results)
        raise_errors(results)
        return results

    def summary(self, results: Sequence[HostResult]) -> int:
        """Print how many hosts were changed or differ, and return the exit code."""
        changed = sum(bool(result.changed or result.differences) for result in results)
        done = "differ" if self.check else "removed" if self.remove else "changed"
        click.echo(f"{len(results)} hosts: {changed} {done}, {len(results) - changed} as they were", err=True)
        return DIFFERS if self.check and changed else 0


def deploy_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the shared options to a click command, which gets their values as `request`."""

    def run(**given: Any) -> Any:
        names = DeployRequest.__dataclass_fields__
        shared = {name: given.pop(name) for name in list(given) if name in names}
        return command(request=DeployRequest(**shared), **given)

    run.__doc__ = command.__doc__
    run.__click_params__ = getattr(command, "__click_params__", [])  # type: ignore[attr-defined]
    decorated: Callable[..., Any] = run
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated


def further_settings(
    path: Path | None, check: Callable[[Path], object], made: Sequence[str]
) -> dict[str, Any]:
    """Return the user's settings for a daemon; raises `ConfigError`.

    Args:
        path: YAML file, None for no settings.
        check: raises for a file that is not legal.
        made: keys that the deployment sets.
    """
    if path is None:
        return {}
    check(path)
    document = dict(read_yaml(path).value or {})
    if problems := [f"{path}: {key}: set by the deployment; leave it out" for key in made if key in document]:
        raise ConfigError(problems)
    return document


def units_command(daemons: Sequence[Daemon], settings: str) -> click.Command:
    """Return the command `units` for these daemons. settings : default directory of their files"""
    names = [daemon.name for daemon in daemons]

    @click.command(
        help=f"Print the systemd unit files of {', '.join(names)}, or write them to a directory.\n\nThe files named in "
        "them are to be made by you, or by `deploy`."
    )
    @click.argument("chosen", nargs=-1, type=click.Choice(names), metavar="[NAME]...")
    @click.option(
        "--scope",
        type=click.Choice(SCOPES),
        default="system",
        show_default=True,
        help="Whose systemd runs them.",
    )
    @click.option("--settings", default=settings, show_default=True, help="Directory of settings and tokens.")
    @click.option(
        "--bin",
        "programs",
        type=FILE,
        default=Path(sys.executable).parent,
        help="Directory of the installed programs; default: of this one.",
    )
    @click.option("--into", type=FILE, help="Write the files there.")
    def units(chosen: tuple[str, ...], scope: str, settings: str, programs: Path, into: Path | None) -> None:
        wanted = [daemon for daemon in daemons if not chosen or daemon.name in chosen]
        files = {name: f"{settings}/{name}" for daemon in wanted for name in daemon.files}
        place = UnitPlace(scope=scope, bin=str(programs), files=files)
        if into is None:
            click.echo("\n".join(unit(daemon, place) for daemon in wanted), nl=False)
            return
        for path in write_units(wanted, place, into):
            click.echo(
                f"{path}: written; systemctl {'--user ' * (scope == 'user')}enable --now {path.name}",
                err=True,
            )

    return units
