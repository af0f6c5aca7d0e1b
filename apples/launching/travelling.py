"""The host agent as it travels: the first input of an agent's connection, and the command that receives it."""

from apples.launching.hostagent import BARE
from nws.base.sentprogram import BOOTSTRAP, framed, interpreter, sent_program

#: The host agent, and all modules that it, its helpers on hosts and the rank wrapper import: the standard library only.
MODULES = (
    "apples.launching.hostagent",
    "apples.launching.fdserver",
    "apples.launching.frames",
    "apples.launching.kernel",
    "apples.launching.orders",
    "apples.launching.proxies",
    "apples.launching.ranksupervisor",
    "apples.launching.ranksupervisors",
    "apples.launching.rankwrapper",
    "apples.launching.registering",
    "apples.launching.relays",
    "apples.launching.rundirectory",
    "apples.launching.statusfile",
    "apples.launching.steering",
    "nws.base.files",
)


def agent_command() -> list[str]:
    """Return the command that runs the agent on any host; `agent_program` is its first input."""
    # The last words are for those who look at the host's processes.
    return interpreter(*BARE, "-c", BOOTSTRAP, "hostagent.py", "serve")


def agent_program() -> bytes:
    """Return the agent as its command reads it."""
    return framed(sent_program(MODULES, "serve"))
