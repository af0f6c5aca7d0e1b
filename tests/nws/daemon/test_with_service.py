"""Real sensors and the real service: what one says the other understands."""

import time

from nws.client.remote import ServiceClient
from nws.service.serviceconfig import Every, ServiceConfig
from nws.testing import InMemoryServer


def test_sensors_deliver_to_the_service(sensor):
    config = ServiceConfig(grid="lab", every=Every(cpu_s=0.5, memory_s=0.5, deliver_s=0.5), frame_s=1.0)
    with InMemoryServer(config) as server, ServiceClient(server.url, timeout_s=30.0) as client:
        started = [
            sensor(server.url, name, address) for name, address in (("a", "127.0.0.2"), ("b", "127.0.0.3"))
        ]
        wanted = {f"cpu.new@{h}" for h in "ab"} | {f"memory.free@{h}" for h in "ab"}
        wanted |= {f"network.{what}@{pair}" for what in ("latency", "bandwidth") for pair in ("a>b", "b>a")}
        end, seen = time.monotonic() + 90, set()
        while not wanted <= seen:
            assert time.monotonic() < end, f"{sorted(wanted - seen)} never came"
            seen = {one["series"] for one in client.series()["series"]}
            time.sleep(0.1)
        first, second = client.hosts()["hosts"]
        assert (first["name"], first["address"], second["name"]) == ("a", "127.0.0.2", "b")
        assert first["status"]["done"] > 0
        assert first["cliques"] == second["cliques"] != []
        assert client.forecasts(["memory.free@a"])["forecasts"][0]["value"] > 0
        assert [one.end() for one in started] == [0, 0]
        for one in started:
            assert "refused and dropped" not in one.said
            assert "; 0 lost" in one.said
