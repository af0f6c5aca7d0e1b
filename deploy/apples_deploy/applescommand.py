"""`apples deploy` puts node managers, a machine manager and a queue on hosts; `apples units` prints unit files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from apples.errors import ConfigError
from apples_deploy.options import DeployRequest, deploy_options, further_settings, units_command
from apples_deploy.sharing import DAEMONS, manager_role, node_role, queue_role
from nws.base.command import FILE
from nws.base.paths import state_dir

if TYPE_CHECKING:
    from apples_deploy.records import DaemonRole

units = units_command(DAEMONS, "/etc/apples")


@click.command()
@click.option(
    "--manager", metavar="HOST", help="Put the machine manager on this host, with a key for each node."
)
@click.option(
    "--port", type=click.IntRange(1, 65535), default=7171, show_default=True, help="Port of the manager."
)
@click.option(
    "--config",
    type=FILE,
    help="Further settings (YAML) of manager and nodes, as in configs/sharing.yaml, without listen, manager and key.",
)
@click.option("--queue", is_flag=True, help="Also put a queue on the manager's host, whose jobs use HOSTS.")
@click.option("--everybody", is_flag=True, help="The queue serves all users of its host (needs root there).")
@deploy_options
def deploy(
    *,
    request: DeployRequest,
    manager: str | None,
    port: int,
    config: Path | None,
    queue: bool,
    everybody: bool,
) -> int:
    """Install, configure and start a node manager on each of HOSTS (alpha, node[01-08]) over your own ssh.

    With --manager HOST also the machine manager there. A second call changes differences only. As root, node managers
    serve all users of their hosts.

    Exit codes: 0 done, 1 with --check a host differs, 2 usage, 5 a host failed.
    """
    from apples.daemons.settings import load_settings

    settings = further_settings(config, load_settings, ("listen", "manager", "key"))
    hosts = request.names(manager)
    if manager is None and (queue or everybody):
        raise ConfigError("--queue and --everybody are for the manager's host; name it with --manager HOST")
    if everybody and not queue:
        raise ConfigError("--everybody is for a queue; add --queue")
    roles = _roles(hosts, settings, manager, port, queue=queue, everybody=everybody)
    first = {} if manager is None else {manager: roles.pop(manager)}
    results = request.carry_out(request.deployment(), [first, roles])
    return request.summary(results)


def _roles(
    hosts: list[str],
    settings: dict[str, Any],
    manager: str | None,
    port: int,
    *,
    queue: bool,
    everybody: bool,
) -> dict[str, tuple[DaemonRole, ...]]:
    from apples.daemons.paths import enrolled
    from apples_deploy.authority import Authority

    authority = Authority(state_dir() / "deploy" / (manager or "nodes"))
    key = authority.secret("sharing.key")
    place = None if manager is None else f"{manager}:{port}"
    roles: dict[str, tuple[DaemonRole, ...]] = {
        host: (
            node_role(
                host, settings, manager=place, key=f"{enrolled(authority.path('sharing.key'), host)}\n"
            ),
        )
        for host in hosts
    }
    if manager is not None:
        own = [manager_role(settings, port=port, key=key), *roles.get(manager, ())]
        if queue:
            own.append(queue_role(dict.fromkeys(hosts), everybody=everybody))
        roles[manager] = tuple(own)
    return roles
