"""Fakes for tests of code that launches runs.

    launcher = FakeLauncher([finished(4.2), failed("rank 3 on beta was killed by signal 9 (KILL)", exit_code=137)])
    assert launcher.requests[0].plan.rows == (33, 31)

No process is started. For simulated machines that execute a plan in simulated time use `apples.simulation`.
"""

from collections.abc import Callable, Iterable

from apples.errors import LaunchError
from apples.model.launchrequest import LaunchRequest, Notify
from apples.model.plan import Outcome, RankStatus

Script = Outcome | LaunchError | Callable[[LaunchRequest], Outcome]


class FakeLauncher:
    """A launcher that returns scripted outcomes in order and records its requests.

    script : for each run the outcome, an error to raise (from `check` too), or a function of the request
    requests : every request that was run.  checked : every request that was checked
    """

    name = "fake"

    def __init__(self, script: Iterable[Script]) -> None:
        self._script = list(script)
        self.requests: list[LaunchRequest] = []
        self.checked: list[LaunchRequest] = []

    def check(self, request: LaunchRequest) -> None:
        """Raise the scripted error if it is the next step."""
        self.checked.append(request)
        following = self._script[len(self.requests) :]
        if following and isinstance(following[0], LaunchError):
            raise following[0]

    def command_line(self, request: LaunchRequest) -> list[str]:
        """`fake -n RANKS PROGRAM ARGUMENTS`."""
        return ["fake", "-n", str(len(request.plan.assignments)), *request.command]

    def run(self, request: LaunchRequest, notify: Notify) -> Outcome:
        """Give the next scripted outcome; raises `AssertionError` when the script is at its end."""
        if len(self.requests) == len(self._script):
            raise AssertionError(
                f"FakeLauncher was asked for more than its {len(self._script)} scripted runs"
            )
        step = self._script[len(self.requests)]
        self.requests.append(request)
        if isinstance(step, LaunchError):
            raise step
        outcome = step(request) if callable(step) else step
        notify(f"fake run of {len(request.plan.assignments)} ranks: {outcome.ended}")
        return outcome


def finished(observed_s: float, hosts: Iterable[str] = ()) -> Outcome:
    """Return the outcome of a successful run; one rank with exit code 0 on each of `hosts`."""
    statuses = tuple(RankStatus(rank=rank, host=host, exit_code=0) for rank, host in enumerate(hosts))
    return Outcome(ended="finished", exit_code=0, observed_s=observed_s, statuses=statuses)


def failed(message: str, *, exit_code: int = 1, observed_s: float = 0.1) -> Outcome:
    """Return the outcome of a run that failed."""
    return Outcome(ended="failed", exit_code=exit_code, observed_s=observed_s, message=message)
