"""Malformed requests made from the description of the interface: refused, and never a failure."""

import random

import pytest

from nws.server.asgi import OPERATIONS
from nws.server.openapi import document
from nws.server.serve import ServerThread
from nws.server.tokens import Role, Tokens
from nws.service.serviceconfig import Limits, ServiceConfig
from nws.service.weatherservice import WeatherService
from tests.nightly.conversations import attack
from tests.nightly.httprequests import Fuzzer
from tests.nightly.listeners import Http

CONFIG = ServiceConfig(limits=Limits(requests_per_minute=1_000_000))


@pytest.mark.parametrize(
    "tokens", [Tokens.none(), Tokens.of({Role.ADMIN: ["t" * 20]})], ids=["everybody may", "nobody may"]
)
def test_no_request_makes_the_server_fail(tokens, caplog):
    chance = random.Random(7)
    with WeatherService(CONFIG, in_memory=True) as service, ServerThread(service, tokens) as server:
        host, _, port = server.url.partition("//")[2].partition(":")
        with Http(chance, (host, int(port))) as http:
            result = attack(http, 400, chance)
    assert "Traceback" not in caplog.text
    answers = {status for _, status in result.answers}
    expected = {"400", "404", "405", "422", "431"} if not tokens.required else {"400", "401", "404", "405"}
    assert expected <= answers, "they reach far enough"


def test_same_seed_makes_the_same_requests():
    first, second = (
        [
            c.raw
            for c in Fuzzer(document(CONFIG, OPERATIONS), seed=3).cases(200)
            if c.kind not in ("legal", "odd body")
        ]
        for _ in range(2)
    )
    assert len(first) == len(second)
    assert sum(a != b for a, b in zip(first, second, strict=True)) < 40, "but for the time of day in batches"
