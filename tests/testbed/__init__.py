"""A grid of real hosts on one machine, for integration tests: namespaces, control groups and links, no containers.

    description   what a YAML file asks for, checked
    limits        control groups of the hosts, version 1 or 2
    network       bridges, links, rates; `relay` holds frames where a link has a delay
    host          one host's birth and death: namespaces, sshd, files of its own
    grid          the whole of it: up, down, exec, crash, kill, freeze, cut, mend, change
    warden        takes everything down when the process that brought it up is gone

The machine's own network namespace gets no interface, address or route. `python -m tests.testbed --help`.
"""
