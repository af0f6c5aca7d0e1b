"""The host agent as it travels: the first input of an agent's connection, and the command that receives it.

For ranks it is sent without the check and the sensors: so it fits into an empty pipe, and nothing waits for the host.
"""

from apples.hosts.hostagent import BARE
from nws.base.sentprogram import BOOTSTRAP, interpreter, sent_program

#: The host agent, and all modules that it, its helpers on hosts and the rank wrapper import: the standard library only.
MODULES = (
    "apples.hosts.hostagent",
    "apples.hosts.fdserver",
    "apples.hosts.frames",
    "apples.hosts.kernel",
    "apples.hosts.orders",
    "apples.hosts.proxies",
    "apples.hosts.ranksupervisor",
    "apples.hosts.supervisedranks",
    "apples.hosts.rankwrapper",
    "apples.hosts.registering",
    "apples.hosts.relays",
    "apples.hosts.rundirectory",
    "apples.hosts.statusfile",
    "apples.hosts.steering",
    "nws.base.files",
    "nws.base.lock",
    "nws.base.scratch",
    "nws.base.scripts",
)

#: The check, and all modules that it imports beside these.
CHECK_MODULES = (
    "apples.hosts.hostcheck",
    "apples.hosts.nodesockets",
    "nws.base.closing",
    "nws.base.errors",
    "nws.base.program",
    "nws.base.threads",
    "nws.client.hostprobe",
    "nws.sensors.cgrouplimits",
    "nws.sensors.cpu",
    "nws.sensors.echo",
    "nws.sensors.levels",
    "nws.sensors.load",
    "nws.sensors.freememory",
    "nws.sensors.network",
    "nws.sensors.procfs",
    "nws.sensors.sharing",
    "nws.sensors.spin",
    "nws.series",
)

#: The agent of hosts that have this package, which a conversation about the node manager needs.
INSTALLED = b"from apples.hosts.hostagent import main; main(['serve'])\n"


def agent_command() -> list[str]:
    """Return the command that runs the agent on any host; `agent_program` is its first input."""
    # The last words are for those who look at the host's processes.
    return interpreter(*BARE, "-c", BOOTSTRAP, "hostagent.py", "serve")


def agent_program(more: tuple[str, ...] = ()) -> bytes:
    """Return the source of the agent with `more` modules."""
    return sent_program((*MODULES, *more), "serve")
