"""Generated inputs for the fuzzers: documents of a JSON schema, the same with errors, and bytes with errors.

Every value comes from one random number generator, so a seed gives the same inputs again. Sends nothing.
"""

from collections.abc import Callable, Mapping
from typing import Any

from tests.transcripts import text_of

#: Odd names, values, JSON, bytes and parts of requests: a dictionary of tuples, in Python's notation.
ODD: dict[str, tuple[Any, ...]] = eval(text_of("nightly/odd.txt"))
#: Most elements of a generated list that its schema does not bound closer.
_MOST = 4


class Generator:
    """Documents of schemas. `names`: texts to choose from where a schema has none, by the name of the property."""

    def __init__(self, chance, names, root):
        """Generate from `chance`. `root`: the document that references of schemas point into."""
        self.chance, self._names, self._root = chance, names, root

    def made(self, schema, name=""):
        """Return a value that a schema allows, or nearly: patterns are kept by `names` only."""
        while "$ref" in schema:
            found: Any = self._root
            for part in schema["$ref"].removeprefix("#/").split("/"):
                found = found[part]
            schema = found
        if "const" in schema or "enum" in schema:
            return schema.get("const", self.chance.choice(schema.get("enum", [None])))
        if "anyOf" in schema:
            return self.made(self.chance.choice(schema["anyOf"]), name)
        kind = schema.get("type", "object")
        kind = self.chance.choice(kind) if isinstance(kind, list) else kind
        if name in self._names and kind not in ("object", "array", "null"):
            return self.chance.choice(self._names[name])
        make: Callable[[], Any] = {
            "object": lambda: self._object(schema),
            "array": lambda: self._array(schema, name),
            "string": lambda: "".join(self.chance.choices("abcxyz", k=self.chance.randint(1, 8))),
            "integer": lambda: self._number(schema, whole=True),
            "number": lambda: self._number(schema, whole=False),
            "boolean": lambda: self.chance.random() < 0.5,
            "null": lambda: None,
        }[kind]
        return make()

    def _object(self, schema):
        wanted, properties = set(schema.get("required", ())), schema.get("properties", {})
        found = {
            name: self.made(part, name)
            for name, part in properties.items()
            if name in wanted or self.chance.random() < 0.7
        }
        more = schema.get("additionalProperties")
        if isinstance(more, Mapping) and not properties:
            for number in range(self.chance.randint(0, _MOST)):
                found[str(number)] = self.made(more)
        return found

    def _array(self, schema, name):
        if "prefixItems" in schema:
            return [self.made(part, name) for part in schema["prefixItems"]]
        least = schema.get("minItems", 0)
        count = self.chance.randint(least, max(least, min(schema.get("maxItems", _MOST), _MOST)))
        return [self.made(schema.get("items", {"type": "null"}), name) for _ in range(count)]

    def _number(self, schema, *, whole):
        low = schema.get("minimum", schema.get("exclusiveMinimum", -1000))
        high = min(schema.get("maximum", schema.get("exclusiveMaximum", 100_000)), low + 100_000)
        return self.chance.randint(int(low), int(high)) if whole else self.chance.uniform(low, high)

    def mutated(self, value):
        """Return the same document with one error: a part missing, added, repeated or of another type or size."""
        chance = self.chance
        if isinstance(value, dict) and value and chance.random() < 0.85:
            key, turn = chance.choice(list(value)), chance.random()
            if turn < 0.12:
                return {k: v for k, v in value.items() if k != key}
            if turn < 0.24:
                return value | {chance.choice(ODD["names"]): chance.choice(ODD["values"])}
            return value | {key: self.mutated(value[key])}
        if isinstance(value, list) and value and chance.random() < 0.7:
            place, turn = chance.randrange(len(value)), chance.random()
            if turn < 0.15:
                return value[:place] + value[place + 1 :]
            if turn < 0.3:
                return value * chance.choice((2, 50))
            return [*value[:place], self.mutated(value[place]), *value[place + 1 :]]
        return chance.choice((*ODD["values"], *ODD["names"]))


def damaged(chance, raw):
    """Return the same bytes with one error: cut, flipped, repeated, another text inside, or none of them left."""
    if not raw:
        return chance.choice(ODD["json"])
    turn, place = chance.random(), chance.randrange(len(raw))
    if turn < 0.2:
        return raw[:place]
    if turn < 0.5:
        changed = bytearray(raw)
        for _ in range(chance.randint(1, 8)):
            changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
        return bytes(changed)
    if turn < 0.6:
        end = min(place + chance.randint(1, 40), len(raw))
        return raw[:end] + raw[place:]
    if turn < 0.9:
        end = min(place + chance.randint(0, 10), len(raw))
        return raw[:place] + chance.choice(ODD["bytes"]) + raw[end:]
    return chance.choice(ODD["json"]) if chance.random() < 0.5 else chance.randbytes(chance.randint(1, 3000))
