"""Malformed requests made from an OpenAPI document, for the fuzzer of the weather server; reproducible by the
seed.

Legal requests, and then bodies with values of wrong types and sizes, text that is not JSON, illegal names and
parameters, headers twice or wrong, unknown methods, broken framing, and bytes that are not HTTP. Sends nothing.
"""

import random
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import quote

import orjson

from tests.nightly.inputs import ODD, Generator, damaged

#: Few enough that legal requests do not fill the server with series.
HOSTS = ("alpha", "beta", "gamma")
SERIES = tuple(f"{kind}@{host}" for kind in ("cpu.new", "memory.free", "x.power") for host in HOSTS)
_NAMES = {
    **dict.fromkeys(("host", "name", "from", "to", "through", "site", "source", "address", "text"), HOSTS),
    "series": SERIES,
    "kind": ("note", "plan made"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One request as bytes. `whole`: a response is due; else the server may wait for more bytes, or close."""

    kind: str
    raw: bytes
    whole: bool = True


class Fuzzer:
    """Requests made from an OpenAPI document; the same seed gives the same ones."""

    def __init__(self, description, seed):
        self._chance = random.Random(seed)
        self._generator = Generator(self._chance, _NAMES, description)
        self._operations = [
            (method.upper(), path, operation)
            for path, operations in description["paths"].items()
            for method, operation in operations.items()
            if method != "parameters"
        ]
        self._kinds: tuple[tuple[Callable[[], Case], int], ...] = (
            (self._legal, 8),
            (self._odd_body, 30),
            (self._no_json, 10),
            (self._odd_name, 14),
            (self._odd_query, 12),
            (self._odd_header, 12),
            (self._odd_method, 5),
            (self._odd_framing, 5),
            (self._garbage, 4),
        )

    def cases(self, count):
        """Yield that many requests."""
        kinds, weights = zip(*self._kinds, strict=True)
        for _ in range(count):
            yield self._chance.choices(kinds, weights)[0]()

    # kinds

    def _legal(self):
        method, path, operation = self._chance.choice(self._operations)
        body = self._body(operation)
        return Case(kind="legal", raw=self._request(method, self._filled(path), body))

    def _odd_body(self):
        method, path, operation = self._chance.choice([o for o in self._operations if "requestBody" in o[2]])
        document = orjson.loads(self._body(operation) or b"{}")
        for _ in range(self._chance.randint(1, 3)):
            document = self._generator.mutated(document)
        return Case(kind="odd body", raw=self._request(method, self._filled(path), orjson.dumps(document)))

    def _no_json(self):
        method, path, operation = self._chance.choice([o for o in self._operations if "requestBody" in o[2]])
        body = self._chance.choice(ODD["json"])
        if self._chance.random() < 0.4:
            body = damaged(self._chance, self._body(operation) or b"{}")
        return Case(kind="no JSON", raw=self._request(method, self._filled(path), body))

    def _odd_name(self):
        method, path, operation = self._chance.choice(self._operations)
        odd = self._chance.choice(ODD["names"])
        name = quote(odd, safe="" if self._chance.random() < 0.5 else "%/.@>")
        target = re.sub(r"\{\w+\}", lambda _: name, path)
        if target == path:
            target = self._chance.choice(
                (f"{path}/{name}", f"/{name}", f"{path}%2f{name}", f"//{path}", path.upper())
            )
        raw = self._request(method, target, self._body(operation))
        if self._chance.random() < 0.1:
            # not quoted at all
            raw = self._request(method, f"/v1/hosts/{odd}", None)
        return Case(kind="odd name", raw=raw)

    def _odd_query(self):
        method, path, operation = self._chance.choice(self._operations)
        parts = [self._chance.choice(ODD["queries"]) for _ in range(self._chance.randint(1, 3))]
        names = [p["name"] for p in operation.get("parameters", ()) if p["in"] == "query"]
        if names and self._chance.random() < 0.5:
            parts.append(
                f"{self._chance.choice(names)}={quote(str(self._chance.choice(ODD['values'])))[:3000]}"
            )
        return Case(
            kind="odd query",
            raw=self._request(method, f"{self._filled(path)}?{'&'.join(parts)}", self._body(operation)),
        )

    def _odd_header(self):
        method, path, operation = self._chance.choice(self._operations)
        headers = [self._chance.choice(ODD["headers"]) for _ in range(self._chance.randint(1, 4))]
        if self._chance.random() < 0.1:
            headers = [f"X-{n}: a" for n in range(200)]
        body = self._body(operation)
        # a length that is not the body's, or none at all, leaves the server waiting or closing
        whole = not any(
            h.startswith(("Content-Length", "Transfer", "Connection", "Upgrade", "\t")) for h in headers
        )
        return Case(
            kind="odd header", raw=self._request(method, self._filled(path), body, headers), whole=whole
        )

    def _odd_method(self):
        _, path, _ = self._chance.choice(self._operations)
        method = self._chance.choice((*ODD["methods"], "GET", "POST", "DELETE"))
        body = self._chance.choice((None, b"{}"))
        return Case(
            kind="odd method", raw=self._request(method, self._filled(path), body), whole=method != "CONNECT"
        )

    def _odd_framing(self):
        method, path, operation = self._chance.choice([o for o in self._operations if "requestBody" in o[2]])
        body = self._body(operation) or b"{}"
        lines = (
            f"{method} {self._filled(path)} HTTP/1.1",
            "Host: localhost",
            "Content-Type: application/json",
            "",
        )
        head = "\r\n".join(lines).encode()
        chunk = b"%x\r\n%s\r\n" % (len(body), body)
        tails = (
            b"Content-Length: %d\r\n\r\n%s" % (len(body) + 10, body),
            b"Content-Length: %d\r\n\r\n%s" % (len(body) - 1, body),
            b"Content-Length: -5\r\n\r\n" + body,
            b"Content-Length: 5, 5\r\n\r\n" + body,
            b"Content-Length: 99999999999999999999\r\n\r\n" + body,
            b"Content-Length: 50000000\r\n\r\n" + body,
            b"Content-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n%s" % (len(body), body),
            b"Transfer-Encoding: chunked\r\n\r\n%s0\r\n\r\n" % chunk,
            b"Transfer-Encoding: chunked\r\n\r\n%s" % chunk,
            b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n" + body,
            b"Transfer-Encoding: chunked\r\n\r\n-1\r\n" + body,
            b"Transfer-Encoding: chunked, chunked\r\n\r\n" + chunk,
            b"Transfer-Encoding: identity\r\n\r\n" + body,
            b"\r\n" + body,
        )  # fmt: skip
        return Case(kind="odd framing", raw=head + self._chance.choice(tails), whole=False)

    def _garbage(self):
        raw = self._chance.choice(ODD["garbage"])
        if self._chance.random() < 0.5:
            raw = self._chance.randbytes(self._chance.randint(1, 3000))
        elif self._chance.random() < 0.3:
            raw = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" * self._chance.randint(2, 60)
        return Case(kind="garbage", raw=raw, whole=False)

    # parts

    def _request(self, method, target, body, headers=None):
        lines = [f"{method} {target} HTTP/1.1", "Host: localhost"]
        if body is not None:
            lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
        lines += headers or []
        return "\r\n".join(lines).encode("utf-8", "surrogateescape") + b"\r\n\r\n" + (body or b"")

    def _filled(self, path):
        names = {"{host}": HOSTS, "{name}": SERIES}
        return re.sub(r"\{\w+\}", lambda m: quote(self._chance.choice(names[m[0]]), safe=""), path)

    def _body(self, operation):
        if "requestBody" not in operation:
            return None
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        document = self._generator.made(schema)
        if "index" in document and self._chance.random() < 0.8:
            self._agree(document)
        return orjson.dumps(document)

    def _agree(self, batch):
        """Make columns of one length about existing series, as a sensor sends them."""
        n = self._chance.randint(0, 20)
        batch["series"] = self._chance.sample(SERIES, self._chance.randint(1, len(SERIES)))
        batch["index"] = [self._chance.randrange(len(batch["series"])) for _ in range(n)]
        batch["t"] = [time.time() - self._chance.random() * 1000 for _ in range(n)]
        batch["value"] = [self._chance.random() for _ in range(n)]
