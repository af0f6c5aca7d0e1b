"""All hosts of a deployment: each is compared with its plan and changed over one ssh connection.

As many as `together` allows are changed at a time. Errors are collected, and reported together at the end.
"""

import base64
import json
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from apples.hosts.conversation import AgentConversation, together
from apples.hosts.frames import ToAgent
from apples.hosts.hostmessages import HostCheckError, read
from apples_deploy.records import DaemonRole, HostLayout, HostPlan, HostReport, Package, host_plan
from nws.base.errors import DeploymentFailed
from nws.base.paths import local_host
from nws.base.sentprogram import sent_program
from nws.base.terminal import visible

#: The program that is sent to hosts. They may have another release of this package or none.
_SENT = ("apples_deploy.agent",)
#: Oldest Python that the package runs on.
OLDEST_PYTHON = (3, 11)
#: Seconds for a host's report, for a comparison, and for a host's changes.
REPORT_S, COMPARE_S, APPLY_S = 40.0, 120.0, 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """How hosts are reached and where the package goes.

    package : None to use `installed`, an environment that hosts have.  wheel : content of the package's file
    prefix : as in `HostLayout.of`.  systemd : use it where it runs
    """

    python: str
    prefix: str | None
    package: Package | None
    wheel: bytes = b""
    installed: str | None = None
    systemd: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class HostResult:
    """The result of one host. differences : before the change.  error : None if there was none"""

    host: str
    plan: HostPlan | None = None
    differences: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    error: str | None = None


class HostDeployment:
    """The hosts of a deployment. log : receives lines about progress, from several threads, one at a time"""

    def __init__(self, means: Means, log: Callable[[str], object]) -> None:
        self._means, self._log, self._lock = means, log, threading.Lock()

    def compare(self, roles: dict[str, tuple[DaemonRole, ...]]) -> list[HostResult]:
        """Return how hosts differ from the plans of their daemons. roles : of each host"""
        return self._each(roles, self._compared)

    def apply(self, roles: dict[str, tuple[DaemonRole, ...]]) -> list[HostResult]:
        """Change hosts that differ from their plans."""
        return self._each(roles, self._applied)

    def remove(self, roles: dict[str, tuple[DaemonRole, ...]]) -> list[HostResult]:
        """Remove daemons, settings and packages; daemons' data stay."""
        return self._each(roles, self._removed)

    def run(self, host: str, command: Sequence[str], within_s: float) -> str:
        """Return the output of a command on a host; raises `HostCheckError`."""
        with self._connection(host) as connection:
            _answer(connection, REPORT_S)
            order = {"do": "run", "command": list(command), "within_s": within_s}
            return str(_asked(connection, order, within_s + REPORT_S)["output"])

    def _each(
        self,
        roles: dict[str, tuple[DaemonRole, ...]],
        work: Callable[[AgentConversation, HostPlan], HostResult],
    ) -> list[HostResult]:
        def one(host: str) -> HostResult:
            began = time.monotonic()
            result = self._result(host, roles[host], work)
            text = result.error or ", ".join(result.changed) or "; ".join(result.differences) or "unchanged"
            self._say(f"{host}: {text} ({time.monotonic() - began:.1f} s)")
            return result

        return together(one, list(roles))

    def _result(
        self,
        host: str,
        roles: tuple[DaemonRole, ...],
        work: Callable[[AgentConversation, HostPlan], HostResult],
    ) -> HostResult:
        try:
            with self._connection(host) as connection:
                report = HostReport.of(_answer(connection, REPORT_S))
                if report.python < OLDEST_PYTHON and self._means.package is not None:
                    raise HostCheckError(
                        f"has Python {'.'.join(map(str, report.python))}; it needs 3.11: name one with --python"
                    )
                return work(connection, self._plan(host, report, roles))
        except HostCheckError as error:
            return HostResult(host=host, error=str(error))
        except OSError as error:
            return HostResult(
                host=host, error=f"cannot be asked: {error.filename or 'ssh'}: {error.strerror}"
            )
        except (KeyError, TypeError, ValueError) as error:
            return HostResult(host=host, error=f"gave an answer that cannot be understood ({error!r})")

    def _plan(self, host: str, report: HostReport, roles: tuple[DaemonRole, ...]) -> HostPlan:
        means = self._means
        layout = HostLayout.of(
            host, report, prefix=means.prefix, installed=means.installed, systemd=means.systemd
        )
        return host_plan(layout, means.package, roles)

    def _connection(self, host: str) -> AgentConversation:
        return AgentConversation(
            None if host in ("localhost", local_host()) else host,
            (ToAgent.QUESTION, b""),
            program=sent_program(_SENT, kept=False),
            python=self._means.python,
            notify=lambda step: self._say(f"{host}: {step}"),
        )

    def _compared(self, connection: AgentConversation, plan: HostPlan) -> HostResult:
        answer = _asked(connection, {"do": "compare", "plan": plan.document()}, COMPARE_S)
        return HostResult(host=plan.host, plan=plan, differences=tuple(answer["differences"]))

    def _applied(self, connection: AgentConversation, plan: HostPlan) -> HostResult:
        answer = _asked(connection, {"do": "compare", "plan": plan.document()}, COMPARE_S)
        if not answer["differences"]:
            return HostResult(host=plan.host, plan=plan)
        wheel = None if answer["installed"] else base64.b64encode(self._means.wheel).decode()
        order = {"do": "apply", "plan": plan.document(), "wheel": wheel}
        answer = _asked(connection, order, APPLY_S)
        return HostResult(host=plan.host, plan=plan, changed=tuple(answer["changed"]))

    def _removed(self, connection: AgentConversation, plan: HostPlan) -> HostResult:
        answer = _asked(connection, {"do": "remove", "plan": plan.document()}, APPLY_S)
        return HostResult(host=plan.host, plan=plan, changed=tuple(answer["changed"]))

    def _say(self, line: str) -> None:
        with self._lock:
            self._log(visible(line))


def raise_errors(results: Iterable[HostResult]) -> None:
    """Raise `DeploymentFailed` with a line for each host that failed."""
    failed = [f"{result.host}: {result.error}" for result in results if result.error is not None]
    if failed:
        raise DeploymentFailed(failed)


def _asked(connection: AgentConversation, order: dict[str, Any], within_s: float) -> dict[str, Any]:
    connection.send(json.dumps(order).encode())
    return _answer(connection, within_s)


def _answer(connection: AgentConversation, within_s: float) -> dict[str, Any]:
    answer: dict[str, Any] = read(dict[str, Any], connection.answer(within_s))
    return answer
