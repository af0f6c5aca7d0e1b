"""The host agent as it travels: the first input of an agent's connection, and the command that receives it.

For ranks it is sent without the check and the sensors: so it fits into an empty pipe, and nothing waits for the host.
"""

from apples.hosts.hostagent import BARE
from nws.base.sentprogram import BOOTSTRAP, interpreter, sent_program

#: The host agent, and the helpers that it starts as programs. All that they import is of the standard library, or ours.
AGENT = ("apples.hosts.hostagent", "apples.hosts.fdserver", "apples.hosts.rankwrapper")
#: The check, which the agent imports when it is asked for one.
CHECK = ("apples.hosts.hostcheck",)

#: The agent of hosts that have this package, which a conversation about the node manager needs.
INSTALLED = b"from apples.hosts.hostagent import main; main(['serve'])\n"


def agent_command() -> list[str]:
    """Return the command that runs the agent on any host; `agent_program` is its first input."""
    # The last words are for those who look at the host's processes.
    return interpreter(*BARE, "-c", BOOTSTRAP, "hostagent.py", "serve")


def agent_program(more: tuple[str, ...] = ()) -> bytes:
    """Return the source of the agent with `more` modules, as `CHECK`."""
    return sent_program((*AGENT, *more), "serve")
