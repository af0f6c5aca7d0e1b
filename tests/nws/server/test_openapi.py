"""The description of the interface is valid, complete, and what the real service answers."""

import math

import jsonschema
import pytest

from nws.server.asgi import OPERATIONS
from nws.server.openapi import document
from nws.server.serve import ServerThread
from nws.server.tokens import Role, Tokens
from nws.service.serviceconfig import CliqueConfig, ServiceConfig
from nws.service.weatherservice import WeatherService
from tests.transcripts import recorded

NOW = 1_795_000_000.0
DESCRIPTION = document(ServiceConfig(), OPERATIONS)


class Clock:
    """Time that a test moves on."""

    def __init__(self):
        self.now = NOW

    def __call__(self):
        return self.now


@pytest.fixture(scope="module")
def clock():
    return Clock()


@pytest.fixture(scope="module")
def real(clock):
    """The real service, in memory, with three hosts in two cliques and an hour of measurements."""
    config = ServiceConfig(
        grid="lab",
        cliques={"ab": CliqueConfig(members=("a", "b")), "bc": CliqueConfig(members=("b", "c"))},
    )
    with (
        WeatherService(config, clock=clock, in_memory=True) as service,
        ServerThread(service, Tokens.none()) as server,
    ):
        yield server


@pytest.fixture(scope="module")
def ask(real, calling):
    """`ask(template, method, path, …)`: status, type and body of the answer are held against the description."""
    caller = calling(real.url)

    def asked(template, method, path, *arguments, **named):
        answer = caller(method, path, *arguments, **named)
        check(template, method, answer)
        return answer

    return asked


def resolve(node):
    """What a reference points to."""
    while "$ref" in node:
        found = DESCRIPTION
        for part in node["$ref"].removeprefix("#/").split("/"):
            found = found[part]
        node = found
    return node


def check(template, method, answer):
    """Hold an answer against the description of its operation."""
    responses = DESCRIPTION["paths"][template][method.lower()]["responses"]
    assert str(answer.status_code) in responses, f"{answer.status_code} is not described: {answer.text}"
    content = resolve(responses[str(answer.status_code)])["content"]
    kind = answer.headers["Content-Type"].partition(";")[0]
    assert kind in content
    if kind == "application/json":
        schema = {**content[kind]["schema"], "components": DESCRIPTION["components"]}
        jsonschema.Draft202012Validator(schema).validate(answer.json())


@pytest.fixture(scope="module")
def filled(ask, clock):
    """The service with hosts, an hour of measurements and an event; keys by host."""
    keys = {}
    for name in ("a", "b", "c"):
        body = {"address": f"10.0.0.{ord(name)}", "port": 4000, "site": "east", "cpus": 2, "version": "1"}
        answer = ask("/v1/hosts/{host}", "POST", f"/v1/hosts/{name}", body)
        assert answer.status_code == 200
        keys[name] = answer.json()["key"]
    for name, others in (("a", "b"), ("b", "ac"), ("c", "b")):
        series = [f"cpu.new@{name}", f"memory.free@{name}"]
        series += [f"network.{kind}@{name}>{other}" for other in others for kind in ("latency", "bandwidth")]
        n = 360
        rows = [
            (place, NOW + 10 * k, 0.5 + 0.4 * math.sin(k + place))
            for k in range(n)
            for place in range(len(series))
        ]
        index, t, value = zip(*rows, strict=True)
        body = {"source": f"{name}/1", "first": 1, "series": series, "index": index, "t": t, "value": value}
        body |= {"status": {"done": n, "missed": 1}}
        clock.now = NOW + 10 * n
        headers = {"X-NWS-Host": name, "X-NWS-Key": keys[name]}
        answer = ask("/v1/measurements", "POST", "/v1/measurements", body, headers=headers)
        assert answer.json()["accepted"] == len(rows), answer.text
    event = {"t": clock.now, "kind": "plan made", "host": None, "text": "64 rows on a, b"}
    assert ask("/v1/events", "POST", "/v1/events", event).status_code == 200
    return keys


def test_description_is_valid_openapi():
    pytest.importorskip("openapi_spec_validator", reason="openapi-spec-validator is not installed").validate(
        DESCRIPTION
    )


def test_operation_is_described_and_nothing_else():
    described = {
        (method.upper(), path)
        for path, operations in DESCRIPTION["paths"].items()
        for method in operations
        if method != "parameters"
    }
    assert described == {(e.method, e.path) for e in OPERATIONS}


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda e: f"{e.method} {e.path}")
def test_role_an_operation_needs_is_the_one_described(operation):
    entry = DESCRIPTION["paths"][operation.path][operation.method.lower()]
    described = {Role(name) for need in entry.get("security", ()) for name in need}
    assert described == (set() if operation.roles is None else operation.roles | {Role.ADMIN})


@recorded("nws/server/answers.txt", "template", "path")
def test_what_is_answered_is_what_is_described(ask, filled, answered, template, path):
    answered(ask(template, "GET", path or template).status_code)


def test_snapshot_holds_everything_that_was_measured(ask, filled):
    document = ask("/v1/snapshot", "GET", "/v1/snapshot?composed=true").json()
    assert len(document["series"]["name"]) == 3 * 2 + 4 * 2
    assert len({len(column) for column in document["series"].values()}) == 1
    composed = document["composed"]
    pairs = dict(zip(zip(composed["from"], composed["to"], strict=True), composed["through"], strict=True))
    assert pairs == {("a", "c"): ["b"], ("c", "a"): ["b"]}


@recorded("nws/server/refusals.txt", "template", "method", "path", "body")
def test_refusals_are_as_described(ask, filled, answered, template, method, path, body):
    answered(ask(template, method, path, body).status_code)


def test_host_writes_its_own_series_only(ask, filled):
    headers = {"X-NWS-Host": "a", "X-NWS-Key": filled["a"]}
    body = {"series": ["cpu.new@a", "cpu.new@b"], "index": [0, 1], "t": [NOW, NOW], "value": [0.5, 0.5]}
    answer = ask("/v1/measurements", "POST", "/v1/measurements", body, headers=headers)
    assert answer.status_code == 403
    samples = ask("/v1/series/{name}/samples", "GET", "/v1/series/cpu.new@a/samples?resolution=raw").json()
    assert len(samples["t"]) == 360, "nothing of the batch is kept"


def test_what_is_delivered_twice_is_kept_once(ask, filled, clock):
    body = {
        "source": "twice/1",
        "first": 1,
        "series": ["x.power@a"],
        "index": [0],
        "t": [clock.now],
        "value": [5],
    }
    first = ask("/v1/measurements", "POST", "/v1/measurements", body).json()
    again = ask("/v1/measurements", "POST", "/v1/measurements", body).json()
    assert (first["accepted"], first["next"], again["accepted"], again["next"]) == (1, 2, 0, 2)


def test_sample_out_of_range_is_refused_alone_and_acknowledged(ask, filled, clock):
    t = [clock.now, clock.now + 1e6]
    body = {"source": "far/1", "first": 1, "series": ["x.far@a"], "index": [0, 0], "t": t, "value": [1, 2]}
    answer = ask("/v1/measurements", "POST", "/v1/measurements", body).json()
    assert (answer["accepted"], answer["next"], answer["refused"]["count"]) == (1, 3, 1)


def test_forgotten_host_is_gone(ask, filled, clock):
    body = {"address": "10.0.0.9", "port": 4000}
    ask("/v1/hosts/{host}", "POST", "/v1/hosts/gone", body)
    answer = ask("/v1/hosts/{host}", "DELETE", "/v1/hosts/gone")
    assert answer.json()["forgotten"] == "gone"
    assert ask("/v1/hosts/{host}", "GET", "/v1/hosts/gone").status_code == 404
