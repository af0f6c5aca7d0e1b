"""The facts of a host that is well, for tests of those who read them."""

from apples.hosts.hostmessages import HostFacts, Survey


def host_facts(**changes):
    """Return the facts of a host, with changed fields."""
    survey = Survey(availability=0.5, capacity=0.9, quota=None, cpus=2, memory_bytes=4e9, load=1.0)
    fields = {
        **dict.fromkeys(("reached_at", "reached_from", "called_back", "survey_error")),
        **dict.fromkeys(("resolved", "missing", "untrusted"), ()),
        "name": "alpha",
        "versions": {},
        "interfaces": {},
        "disks": {},
        "cpu_model": "Xeon",
        "shared_memory_bytes": 1e9,
        "node_manager": False,
        "clock_s": 0.0,
        "survey": survey,
    }
    return HostFacts(**{**fields, **changes})
