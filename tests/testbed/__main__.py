"""A testbed for people.

python -m tests.testbed up FILE                      bring it up; again: what is missing
python -m tests.testbed down FILE                    take it down
python -m tests.testbed status FILE                  hosts, addresses, limits
python -m tests.testbed exec FILE HOST COMMAND...    run a command inside a host
python -m tests.testbed crash|kill|start FILE HOST   power failure, end all processes, power on
python -m tests.testbed freeze|thaw FILE HOST        stop all processes where they stand, go on
python -m tests.testbed cut|mend FILE HOST|SITE      a link without packets
python -m tests.testbed set FILE HOST|SITE KEY=VALUE...   cpu, memory, rate, delay
"""

from __future__ import annotations

import os
import sys

from .description import load
from .errors import TestbedError
from .grid import Testbed


def main(arguments: list[str]) -> None:
    """See the module's docstring; ends with exit code 1 or 2 where it cannot."""
    whole = ("up", "down", "status")
    one = ("crash", "kill", "start", "freeze", "thaw", "cut", "mend")
    if len(arguments) < 2 or (arguments[0] not in whole and len(arguments) < 3):
        print((__doc__ or "").strip(), file=sys.stderr)
        sys.exit(0 if {"-h", "--help"} & set(arguments) else 2)
    verb, file, *rest = arguments
    testbed = Testbed(load(file))
    if verb == "exec":
        command = testbed.command(rest[0], rest[1:] or ["sh"])
        os.execvp(command[0], command)
    elif verb == "set":
        testbed.change(rest[0], **dict(pair.split("=", 1) for pair in rest[1:]))
    elif verb == "status":
        for host in testbed.spec.hosts:
            now, power = testbed.host(host.name), "up" if testbed.is_up(host.name) else "off"
            print(
                f"{host.name:12} {host.address:14} {host.site:10} {power:4} {now.cpu:.2f} of CPU {host.cpuset}"
            )
    elif verb in whole:
        getattr(testbed, verb)()
    elif verb in one:
        getattr(testbed, verb)(rest[0])
    else:
        sys.exit(f"unknown: {verb}; see --help")
    for text in testbed.spec.crowded if verb == "up" else ():
        print(f"note: {text}; hosts there slow each other down", file=sys.stderr)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except TestbedError as error:
        sys.exit(f"testbed: {error}")
