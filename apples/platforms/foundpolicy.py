"""The policy of a run over several hosts under `--policy auto`: that of the node managers on its hosts."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Self, TypeAlias

from apples.coscheduling.policies import PolicyKind, policy_kind
from apples.daemons.paths import JOB_VARIABLE
from apples.daemons.session import new_job
from apples.daemons.starting import Notify
from apples.errors import ConfigError, MonitorError, SharingError
from apples.model.snapshots import TimeShares
from apples.monitoring.build import monitor_library
from apples.platforms.sharedhosts import ANSWER_S, Addresses, Reached, SharedHosts, connected
from nws.base.errors import ReportedError
from nws.base.hostconnection import HostCheckError, together


class FoundPolicy:
    """The policy of a run under `--policy auto`: that of the node managers on its hosts. A context manager.

    Until `look` has found some, and where they cannot be joined, the run has no policy and `kind` is None.

    job : its name.  environment : variables for all ranks.  turns : None, each look at the hosts returns them
    """

    turns: TimeShares | None = None

    def __init__(self, notify: Notify) -> None:
        self.job, self._notify = new_job(), notify
        self.environment = {JOB_VARIABLE: self.job}
        self._found: SharedHosts | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._found is not None:
            self._found.__exit__()

    @property
    def hosts(self) -> Self:
        """See `SharedHosts.hosts`."""
        return self

    @property
    def kind(self) -> PolicyKind | None:
        """Return the policy of the run, None without one."""
        return None if self._found is None else self._found.kind

    def look(self, addresses: Addresses, managed: Collection[str] = ()) -> TimeShares | None:
        """Return how many jobs share each host; None if the run has no policy.

        Args:
            managed: hosts on which a node manager may run
        """
        try:
            if self._found is None:
                kind = _kind_on({host: addresses[host] for host in managed})
                if kind is None:
                    return None
                if kind.needs_monitor:
                    monitor_library()
                self._found = SharedHosts(kind, self._notify, self.job)
            return self._found.look(addresses)
        except (SharingError, MonitorError, ConfigError) as error:
            self.leave(error)
            return None

    def leave(self, why: ReportedError) -> None:
        """Give up the policy, with a note."""
        self._notify(f"the run does not take part in the policy of its hosts: {why}")
        found, self._found = self._found, None
        if found is not None:
            found.__exit__()

    def join(self, hosts: Sequence[str], environment: Mapping[str, str]) -> dict[str, dict[str, str]]:
        """See `SharedHosts.join`; without a policy, or if its hosts refuse, there are no variables."""
        if self._found is None:
            return {}
        try:
            return self._found.join(hosts, environment)
        except SharingError as error:
            self.leave(error)
            return {}

    def shares(self, environment: Mapping[str, str]) -> bool:
        """See `SharedHosts.shares`; without a policy nothing is shared."""
        return self._found is not None and self._found.shares(environment)

    def end(self) -> None:
        """See `SharedHosts.end`."""
        if self._found is not None:
            self._found.end()

    def observed(self) -> dict[str, Any]:
        """See `SharedHosts.observed`; empty without a policy."""
        return {} if self._found is None else self._found.observed()


HostsPolicy: TypeAlias = SharedHosts | FoundPolicy


def _kind_on(addresses: Addresses) -> PolicyKind | None:
    """Return the policy of the node managers on hosts, None if there are none.

    Raises `SharingError` for several policies and hosts that do not answer, `ConfigError` for an unknown policy.
    """
    found = dict(
        zip(addresses, together(lambda host: _policy_on(host, addresses[host]), list(addresses)), strict=True)
    )
    named = {host: name for host, name in found.items() if name is not None}
    if len(names := set(named.values())) > 1:
        several = ", ".join(f"{host}: {name}" for host, name in named.items())
        raise SharingError(f"its hosts have different policies ({several})")
    return policy_kind(names.pop()) if names else None


def _policy_on(host: str, reached: Reached) -> str | None:
    """Return the policy of a host's node manager, None if none answers; raise `SharingError`."""
    connection = connected(None, reached)
    try:
        answer = connection.ask({"look": None}, ANSWER_S)
    except HostCheckError as error:
        raise SharingError(f"{host} {error}; a policy needs this package on every host") from None
    finally:
        connection.close()
    if "refused" in answer:
        raise SharingError(f"{host}: {answer['refused']}")
    node = answer["look"]["node"]
    return None if node is None else str(node["policy"])
