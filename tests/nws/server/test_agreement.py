"""The JSON schemas and the server agree about the validity of generated documents."""

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from nws.server.asgi import OPERATIONS
from nws.server.openapi import document
from nws.server.serve import ServerThread
from nws.server.tokens import Tokens
from nws.service.serviceconfig import Limits, ServiceConfig
from nws.service.weatherservice import WeatherService

NOW = 1_795_000_000.0
SCHEMAS = document(ServiceConfig(), OPERATIONS)["components"]["schemas"]
# JSON Schema calls 1.0 an integer, which the server does not; whole floats are left out
ODD = (
    st.none()
    | st.booleans()
    | st.integers(-(1 << 60), 1 << 60)
    | st.floats(-1e6, 1e6).filter(lambda x: not x.is_integer())
    | st.text(st.characters(exclude_categories=("Cs",)), max_size=300)
    | st.sampled_from(
        ["", "a\n", "a\x9b", "a b", "é", "-a", "a" * 64, "a" * 65, "a" * 256, "a\u202eb", [], {}]
    )
)
WHOLE = st.sampled_from([0, 1, 65535, 65536, 1 << 20, (1 << 20) + 1, 1 << 53, (1 << 53) + 1])
TEXT = st.text(st.characters(min_codepoint=32, max_codepoint=0x17F), max_size=20)
LEGAL = {
    "Registration": {
        "address": st.from_regex(r"[A-Za-z0-9.:_%-]{1,20}", fullmatch=True),
        "port": st.integers(0, 65535),
        "site": st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,9}", fullmatch=True),
        "cpus": st.integers(0, 64),
        "cpu_model": TEXT,
        "memory_bytes": st.integers(0, 1 << 40),
        "version": TEXT,
    },
    "Event": {
        "t": st.floats(0.25, NOW - 1),
        "kind": st.from_regex(r"[a-z]([a-z ]{0,9}[a-z])?", fullmatch=True),
        "host": st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,9}", fullmatch=True),
        "text": TEXT,
    },
}
PATHS = {"Registration": "/v1/hosts/a", "Event": "/v1/events", "Batch": "/v1/measurements"}
NAMES = ["cpu.new@a", "x.power@b", "x.hops@a>b", "network.latency@a>b"]
NO_NAMES = [
    "",
    "cpu.new",
    "cpu.old@a",
    "cpu.new@a>b",
    "network.latency@a",
    "x.@a",
    "x.A@a",
    "x.a@-",
    "x.a@b>",
]
NO_NUMBER = st.sampled_from([None, True, "1", [1], {}])


@pytest.fixture(scope="module")
def call(calling):
    """A server whose host may register again and again."""
    config = ServiceConfig(limits=Limits(requests_per_minute=1_000_000))
    with (
        WeatherService(config, clock=lambda: NOW, in_memory=True) as service,
        ServerThread(service, Tokens.none()) as server,
    ):
        yield calling(server.url)


@st.composite
def documents(draw, name):
    """A legal document, in half of the cases with fields replaced, removed or added."""
    fields, whole = LEGAL[name], draw(st.booleans())
    found = {field: draw(values) for field, values in fields.items() if whole or draw(st.integers(0, 4))}
    if whole:
        return found
    for field in draw(st.lists(st.sampled_from([*fields, "other"]), max_size=2)):
        value = draw(ODD | WHOLE)
        if not (field == "t" and isinstance(value, int) and value > NOW):
            found[field] = value
    return found


@st.composite
def batches(draw):
    """A batch whose columns fit each other, most often with one or two items or fields replaced."""
    n = draw(st.integers(0, 4))
    batch = {"series": list(NAMES), "index": [k % 4 for k in range(n)], "t": [NOW] * n, "value": [0.5] * n}
    if draw(st.booleans()):
        batch |= {"source": "a/1", "first": draw(st.integers(0, 1000)), "status": {"done": 3}}
    for field in draw(st.lists(st.sampled_from([*batch, "other", "status", "first"]), max_size=2)):
        if field == "series":
            batch["series"].append(draw(st.sampled_from([*NAMES, *NO_NAMES, None, 1])))
        elif field in ("index", "t", "value"):
            if n:
                batch[field][0] = draw(NO_NUMBER)
        elif field == "status":
            batch["status"] = draw(
                ODD | st.dictionaries(st.sampled_from(["a", "A", "b_1", ""]), ODD, max_size=2)
            )
        else:
            batch[field] = draw(ODD | WHOLE)
    return batch


@pytest.mark.parametrize("name", ["Registration", "Event", "Batch"])
def test_schema_and_server_agree_on_generated_documents(call, name, record_property):
    def matches(validator, pattern, value, schema):
        # in Python `$` is also before a last line feed, in JSON Schema it is not
        legal = jsonschema.Draft202012Validator.VALIDATORS["pattern"]
        yield from legal(validator, pattern.removesuffix("$") + r"\Z", value, schema)

    kind = jsonschema.validators.extend(jsonschema.Draft202012Validator, {"pattern": matches})
    schema = kind({**SCHEMAS[name], "components": {"schemas": SCHEMAS}})
    key, seen = [], {True: 0, False: 0}

    @settings(max_examples=250, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(batches() if name == "Batch" else documents(name))
    def agree(sent):
        headers = {"X-NWS-Key": key[0]} if key and name == "Registration" else {}
        answer = call("POST", PATHS[name], sent, headers=headers)
        if name == "Registration" and answer.status_code == 200 and "key" in answer.json():
            key.append(answer.json()["key"])
        valid = schema.is_valid(sent)
        assert (answer.status_code == 200) == valid, (sent, answer.text)
        assert answer.status_code in (200, 400, 422)
        seen[valid] += 1

    agree()
    record_property("legal and illegal documents", [seen[True], seen[False]])
    assert min(seen.values()) > 50
