"""The host agent as it travels: the first input of an agent's connection, and the command that receives it."""

from apples.hosts.hostagent import BARE
from nws.base.sentprogram import BOOTSTRAP, framed, interpreter, sent_program

#: The host agent, and all modules that it, its helpers on hosts and the rank wrapper import: the standard library only.
MODULES = (
    "apples.hosts.hostagent",
    "apples.hosts.fdserver",
    "apples.hosts.frames",
    "apples.hosts.kernel",
    "apples.hosts.orders",
    "apples.hosts.proxies",
    "apples.hosts.ranksupervisor",
    "apples.hosts.ranksupervisors",
    "apples.hosts.rankwrapper",
    "apples.hosts.registering",
    "apples.hosts.relays",
    "apples.hosts.rundirectory",
    "apples.hosts.statusfile",
    "apples.hosts.steering",
    "nws.base.files",
)


def agent_command() -> list[str]:
    """Return the command that runs the agent on any host; `agent_program` is its first input."""
    # The last words are for those who look at the host's processes.
    return interpreter(*BARE, "-c", BOOTSTRAP, "hostagent.py", "serve")


def agent_program() -> bytes:
    """Return the agent as its command reads it."""
    return framed(sent_program(MODULES, "serve"))
