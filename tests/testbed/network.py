"""The network of a testbed: a bridge for each site, one that joins the sites, and links with rate and delay.

All of it lives in the network namespace of a process called the core, and in those of the hosts. A link without delay
is a veth pair; one with a delay is two TAP interfaces with a relay between them. Rates are token buckets at both ends.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from .description import HostSpec, SiteSpec
from .errors import TestbedError
from .running import run, within

RELAY = Path(__file__).with_name("relay.py")
WAN = "wan"
#: Bytes of bursts, and the rate from which on frames pass whole.
FEW_FRAMES, WHOLE_FRAME, FAST_BPS = 6000, 70_000, 100_000_000


def bridge_of(site: SiteSpec) -> str:
    """Name of a site's bridge."""
    return f"site{site.number}"


class Network:
    """Links and bridges around the core.

    core : process whose network namespace holds the bridges.  directory : where delays and logs are kept
    entering : shell commands that put what is started there into the testbed's control groups
    relays : link → process of its relay
    """

    def __init__(self, core: int, directory: Path, entering: str, relays: dict[str, int]) -> None:
        self.core, self._directory, self._entering, self.relays = core, directory, entering, relays

    def build(self, sites: tuple[SiteSpec, ...]) -> None:
        """Bridges, and an uplink for each site where there are several."""
        bridges = [bridge_of(site) for site in sites] + [WAN] * (len(sites) > 1)
        lines = [f"link add {b} type bridge forward_delay 0\nlink set {b} up\n" for b in bridges]
        run(within(self.core, "ip", "-batch", "-"), given="".join(lines) + "link set lo up\n")
        for site in sites if len(sites) > 1 else ():
            near, far = self.ends(site)
            self._wire(f"site-{site.name}", (near, self.core), (far, self.core), site)
            self._join(near, bridge_of(site))
            self._join(far, WAN)

    def attach(self, host: HostSpec, pid: int, site: SiteSpec) -> None:
        """The link of a host, its address and its place on the site's bridge; the host keeps its MAC for life."""
        near, far = self.ends(host)
        self._wire(host.name, (near, pid), (far, self.core), host)
        self._join(far, bridge_of(site))
        run(
            within(pid, "ip", "-batch", "-"),
            given=f"link set {near} address 02:00:00:00:00:{host.number:02x}\n"
            f"addr add {host.address}/16 brd + dev {near}\n",
        )

    def detach(self, host: HostSpec) -> None:
        """Cut a host's link for good: no last packet leaves it."""
        relay = self.relays.pop(host.name, None)
        if relay is not None:
            _end(relay)
        run(within(self.core, "ip", "link", "del", self.ends(host)[1]), check=False)

    def switch(self, what: HostSpec | SiteSpec, up: bool) -> None:
        """Pull the plug of a host or a site, or put it back: packets are lost without a word."""
        run(within(self.core, "ip", "link", "set", self.ends(what)[1], "up" if up else "down"))

    def set_rate(self, what: HostSpec | SiteSpec, pid: int) -> None:
        """Bring the rate of a link to what the record says; `pid` is a process at its near end."""
        for device, where in zip(self.ends(what), (pid, self.core), strict=True):
            self._shape(device, where, what.rate_bps)

    def set_delay(self, what: HostSpec | SiteSpec) -> None:
        """Bring the delay of a link to what the record says; raises `TestbedError` where it never had one."""
        tag = what.name if isinstance(what, HostSpec) else f"site-{what.name}"
        if tag not in self.relays:
            raise TestbedError(f"the link of {what.name} was made without a delay; give it one in the file")
        self._delay_file(tag).write_text(f"{what.delay_s} {what.loss}")
        os.kill(self.relays[tag], signal.SIGHUP)

    @staticmethod
    def ends(what: HostSpec | SiteSpec) -> tuple[str, str]:
        """Names of a link's interfaces: at the host or site, and at the bridge it leads to."""
        if isinstance(what, HostSpec):
            return "eth0", f"h{what.number}"
        return f"up{what.number}", f"wan{what.number}"

    def _wire(self, tag: str, a: tuple[str, int], b: tuple[str, int], spec: HostSpec | SiteSpec) -> None:
        if spec.delay_s > 0:
            self._delay_file(tag).write_text(f"{spec.delay_s} {spec.loss}")
            self.relays[tag] = self._start_relay(tag, a, b)
        else:
            (near, near_pid), (far, far_pid) = a, b
            peer = ["peer", "name", far, "netns", str(far_pid)]
            run(within(self.core, "ip", "link", "add", near, "netns", str(near_pid), "type", "veth", *peer))
        for device, pid in (a, b):
            self._shape(device, pid, spec.rate_bps)
            run(within(pid, "ip", "link", "set", device, "up"))

    def _start_relay(self, tag: str, a: tuple[str, int], b: tuple[str, int]) -> int:
        log = self._directory / f"relay-{tag}.log"
        arguments = [a[0], str(a[1]), b[0], str(b[1]), str(self._delay_file(tag))]
        command = within(self.core, sys.executable, "-I", "-S", str(RELAY), *arguments)
        with log.open("w") as said:
            process = subprocess.Popen(
                ["sh", "-c", f'{self._entering} exec "$@"', "sh", *command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=said,
                start_new_session=True,
            )
        assert process.stdout is not None
        with process.stdout:
            answer = process.stdout.readline()
        # It outlives this object, which would warn of that.
        process.returncode = 0
        if answer != b"ok\n":
            raise TestbedError(f"the relay of {tag} did not start: {log.read_text().strip()}")
        return process.pid

    def _shape(self, device: str, pid: int, rate_bps: int | None) -> None:
        where: Callable[..., list[str]] = lambda *words: within(pid, "tc", "qdisc", *words)  # noqa: E731
        if rate_bps is None:
            run(where("del", "dev", device, "root"), check=False)
            return
        # a burst of two milliseconds, and never less than a few frames; a fast link takes the largest frames whole,
        # for if they are cut in pieces here, the relay behind has forty times as many to hold
        burst = max(WHOLE_FRAME if rate_bps >= FAST_BPS else FEW_FRAMES, rate_bps // 8 // 500)
        bucket = ["tbf", "rate", str(rate_bps), "burst", str(burst), "latency", "50ms"]
        run(where("replace", "dev", device, "root", *bucket))

    def _join(self, device: str, bridge: str) -> None:
        run(within(self.core, "ip", "link", "set", device, "master", bridge))

    def _delay_file(self, tag: str) -> Path:
        return self._directory / f"relay-{tag}.delay"


def _end(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
