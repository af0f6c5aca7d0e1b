"""Configuration files: what is wrong is said once, all together, with file and line."""

import os
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from nws.base import yamltree
from nws.base.errors import ConfigError
from nws.base.quantities import BANDWIDTH, LATENCY, MEMORY, Bandwidth_Bps, Count, Latency_s, Memory_bytes
from nws.base.reader import load_yaml
from nws.base.yamltree import parse
from tests.transcripts import recorded


@dataclass(frozen=True, slots=True, kw_only=True)
class Wheel:
    radius: float
    spokes: Count = 1
    label: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cart:
    name: str
    wheels: tuple[Wheel, ...]
    prices: dict[str, float] = field(default_factory=dict)
    latency: Latency_s = 0.0
    bandwidth: Bandwidth_Bps | None = None
    memory: Memory_bytes | None = None
    spare: Wheel | None = None
    covered: bool = False


@pytest.fixture
def cart(tmp_path, monkeypatch):
    """Loads text as a Cart from cart.yaml."""
    monkeypatch.chdir(tmp_path)

    def load(text):
        Path("cart.yaml").write_text(text, encoding="utf-8")
        return load_yaml("cart.yaml", Cart)

    return load


@pytest.fixture
def problems(cart):
    """The problems of a text that is no Cart."""

    def find(text):
        with pytest.raises(ConfigError) as caught:
            cart(text)
        assert caught.value.exit_code == 2
        return list(caught.value.problems)

    return find


def test_good_file_becomes_frozen_records(cart):
    loaded = cart("name: a\nwheels: [{radius: 1}, {radius: 2.5, spokes: 8}]\nlatency: 0.5ms\nmemory: 1.5GiB")
    assert loaded.wheels == (Wheel(radius=1.0), Wheel(radius=2.5, spokes=8))
    assert loaded.latency == 0.0005
    assert loaded.memory == 1.5 * 2**30


def test_number_with_an_exponent_and_no_point_is_a_number(cart):
    assert cart("name: a\nwheels: []\nprices: {hay: 1e-4, '1e3': 2}").prices == {"hay": 1e-4, "1e3": 2.0}


def test_anchors_aliases_and_merges_work(cart):
    text = "name: a\nspare: &wheel {radius: 1, spokes: 4}\nwheels:\n- *wheel\n- <<: *wheel\n  radius: 3"
    assert cart(text).wheels == (Wheel(radius=1.0, spokes=4), Wheel(radius=3.0, spokes=4))


def test_problem_is_told_at_once_in_the_order_of_the_file(problems):
    text = "name: 5\nwheels:\n- radius: wide\n  spoke: 3\n- spokes: 0\ncovered: 1\nlatency: -1ms\nnmae: x\nname: b\n"
    assert problems(text) == [
        "cart.yaml:1: name: should be text; got 5; write it in quotes to make it text",
        "cart.yaml:3: wheels.0.radius: should be a number; got 'wide'",
        "cart.yaml:4: wheels.0.spoke: unknown key (did you mean spokes?); legal keys are radius, spokes, label",
        "cart.yaml:5: wheels.1.radius: missing; this key is needed here beside spokes",
        "cart.yaml:5: wheels.1.spokes: should be greater than or equal to 1; got 0",
        "cart.yaml:6: covered: should be true or false; got 1",
        "cart.yaml:7: latency: latency must be 0 or more; got -1ms",
        "cart.yaml:8: nmae: unknown key (did you mean name?); legal keys are "
        "name, wheels, prices, latency, bandwidth, memory, spare, covered",
        "cart.yaml:9: name: duplicate key; it stands in line 1 already, keep one",
    ]


@recorded("nws/base/yaml_problems.txt", "text")
def test_what_is_wrong_is_said_with_its_place(problems, answered, text):
    answered(problems(text))


def test_reader_refuses_more_aliases_than_values(problems, monkeypatch):
    monkeypatch.setattr(yamltree, "_MOST_VALUES", 1000)
    text = "a: &a [x, x]\n" + "".join(
        f"{c}: &{c} [{', '.join([f'*{b}'] * 5)}]\n" for b, c in pairwise("abcdef")
    )
    stated = "cart.yaml:1: more than 1000 values once aliases are written out; write it without them"
    assert problems(text) == [stated]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *((text, None) for text in ("", "~", "null", "Null", "!!null ~")),
        *((text, True) for text in ("true", "True", "TRUE", "!!bool true")),
        # Texts that readers of YAML 1.1 take for numbers, booleans or dates.
        *((text, text) for text in ("no", "On", "y", "12:30", "1:30:00", "1_000", "0b11", "2026-11-28")),
        *((text, text) for text in ("010", "-010", "08", "00.5", "0x", "1e", "+", ".")),
        *((text, int(text)) for text in ("0", "-0", "7", "+5", "-12")),
        *((text, float(text)) for text in ("1.10", "1e-6", "-1.5E+2", ".5", "1.", "5.e3", "+.5e-3", "0.10")),
        ("0x1F", 31),
        ("0o17", 15),
        ("9" * 300, int("9" * 300)),
        *((text, text.split()[-1].strip("'")) for text in ("'1'", "!!str 010", "!!str true", "! 'a'")),
        ("!!float 3", 3.0),
        ("!!int '5'", 5),
    ],
)
def test_scalar_by_yaml_1_2_core(text, value):
    tree = parse(f"- {text}")
    assert tree.problems == []
    assert tree.value == [value]
    assert type(tree.value[0]) is type(value)


@pytest.mark.parametrize("text", ["!!int a", "!!bool 1", "!!float '1:30'", "!!int 1.5", "!!null x"])
def test_scalar_not_of_its_tag_is_refused(text):
    (problem,) = parse(f"- {text}").problems
    assert problem.text.endswith("leave the tag out")


@recorded("nws/base/yaml_1_1_numbers.txt", "text")
def test_number_of_yaml_1_1_is_refused_with_remedy(problems, answered, text):
    other = "" if text.startswith("radius") else ", radius: 1"
    answered(problems(f"name: a\nwheels:\n- {{{text}{other}}}"))


@pytest.mark.parametrize(("word", "meant"), [("yes", "true"), ("Off", "false"), ("n", "false")])
def test_boolean_of_yaml_1_1_is_refused_with_remedy(problems, word, meant):
    expected = f"cart.yaml:3: covered: should be true or false; got {word!r}; write {meant}"
    assert problems(f"name: a\nwheels: []\ncovered: {word}") == [expected]


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("name: [", "cart.yaml:2: not valid YAML: while parsing a flow node"),
        ("name: a\n wheels: []", "cart.yaml:2: not valid YAML: mapping values are not allowed"),
        ("name: a\n---\nname: b", "cart.yaml:2: not valid YAML: expected a single document"),
        ("name: \0", "cart.yaml:1: not valid YAML: unacceptable character #x0000"),
    ],
)
def test_bad_yaml_is_told_with_its_line(problems, text, start):
    (problem,) = problems(text)
    assert problem.startswith(start)
    assert problem.endswith("check indentation, quotes and brackets")


def test_files_that_cannot_be_read_say_what_to_do(tmp_path):
    not_text = tmp_path / "latin.yaml"
    not_text.write_bytes("a: 1\nname: café\n".encode("latin-1"))
    expected = {
        tmp_path / "absent.yaml": "no such file; check the path",
        tmp_path: "is a directory; give the path of a YAML file",
        not_text: "byte 0xe9 is not UTF-8 text; save the file as UTF-8",
    }
    for path, message in expected.items():
        with pytest.raises(ConfigError) as caught:
            load_yaml(path, Cart)
        assert str(caught.value).endswith(message)
    assert "latin.yaml:2:" in str(caught.value)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable_file_says_so(tmp_path):
    secret = tmp_path / "secret.yaml"
    secret.write_text("name: a")
    secret.chmod(0)
    with pytest.raises(ConfigError, match="cannot be read: Permission denied; check the file"):
        load_yaml(secret, Cart)


def test_file_through_a_file_cannot_be_read(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(ConfigError, match="cannot be read: Not a directory; check the file"):
        load_yaml(tmp_path / "file" / "grid.yaml", Cart)


@recorded("nws/base/quantities.txt", "quantity", "text")
def test_quantity_of_a_text_is_as_recorded(answered, quantity, text):
    """A number in the base unit, or the legal units."""
    try:
        answered(repr({"latency": LATENCY, "bandwidth": BANDWIDTH, "memory": MEMORY}[quantity].parse(text)))
    except ValueError as error:
        answered(str(error))


@given(st.floats(1e-3, 1e6), st.sampled_from(sorted(MEMORY.units)))
def test_quantity_is_its_number_times_its_unit(number, unit):
    assert MEMORY.parse(f"{number!r}{unit}") == number * MEMORY.units[unit]
