"""Malformed requests made from the description of the interface: refused, and never a failure."""

import importlib
import sys
from pathlib import Path

import pytest

from nws.server.openapi import document
from nws.server.routes import OPERATIONS
from nws.server.run import ServerThread
from nws.server.tokens import Role, Tokens
from nws.service.config import Limits, ServiceConfig
from nws.service.core import WeatherService

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


@pytest.fixture(scope="module")
def fuzz():
    """The benchmark as a module."""
    if not (BENCHMARKS / "fuzz_server.py").exists():
        pytest.skip("the benchmarks are not part of this installation")
    sys.path.insert(0, str(BENCHMARKS))
    try:
        yield importlib.import_module("fuzz_server")
    finally:
        sys.path.remove(str(BENCHMARKS))


CONFIG = ServiceConfig(limits=Limits(requests_per_minute=1_000_000))


@pytest.mark.parametrize(
    "tokens", [Tokens.none(), Tokens.of({Role.ADMIN: ["t" * 20]})], ids=["everybody may", "nobody may"]
)
def test_no_request_makes_the_server_fail(fuzz, tokens, caplog):
    with WeatherService(CONFIG, in_memory=True) as service, ServerThread(service, tokens) as server:
        host, _, port = server.url.partition("//")[2].partition(":")
        outcome = fuzz.attack((host, int(port)), fuzz.Fuzzer(document(CONFIG, OPERATIONS), seed=7), 400)
    assert outcome.failures == []
    assert "Traceback" not in caplog.text
    answers = {status for _, status in outcome.statuses}
    expected = {"400", "404", "405", "422", "431"} if not tokens.required else {"400", "401", "404", "405"}
    assert expected <= answers, "they reach far enough"


def test_the_same_seed_makes_the_same_requests(fuzz):
    first, second = (
        [
            c.raw
            for c in fuzz.Fuzzer(document(CONFIG, OPERATIONS), seed=3).cases(200)
            if c.kind not in ("legal", "odd body")
        ]
        for _ in range(2)
    )
    assert len(first) == len(second)
    assert sum(a != b for a, b in zip(first, second, strict=True)) < 40, "but for the time of day in batches"
