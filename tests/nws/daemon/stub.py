"""A weather service that keeps what it is told in lists: real HTTP on the loopback, refusals on demand."""

from __future__ import annotations

import contextlib
import itertools
import json
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from nws.links.cliques import automatic, schedule


class StubServer:
    """`requests` are (method, path, headers, body); `samples` are (series, t, value) as they were kept, in order.

    refuse : (method, path, body) → (status, message) or None.  offset_s : by which its clock is ahead
    """

    def __init__(
        self, *, address="127.0.0.1", port=0, every=None, frame_s=0.8, guard_s=0.05, offset_s=0.0, keys=None
    ):
        self.every = every or {"cpu": 0.5, "memory": 0.5, "deliver": 0.2}
        self.frame_s, self.guard_s, self.offset_s = frame_s, guard_s, offset_s
        self.refuse = lambda method, path, body: None
        self.requests, self.samples, self.statuses = [], [], []
        self.connections = set()
        self.hosts, self.keys, self.next = {}, keys if keys is not None else {}, {}
        self.version = 0
        self._serial = itertools.count(1)
        self._news = threading.Condition()
        stub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # one segment for headers and body: no pause of a delayed acknowledgement between them
            wbufsize = -1

            def setup(self):
                super().setup()
                stub.connections.add(self.connection)

            def finish(self):
                stub.connections.discard(self.connection)
                super().finish()

            def handle_any(self):
                length = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(length)) if length else None
                status, answer = stub.handle(self.command, self.path, self.headers, body)
                data = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                if status == 429:
                    self.send_header("Retry-After", "1")
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = handle_any

            def log_message(self, *arguments):
                pass

        class Quiet(ThreadingHTTPServer):
            daemon_threads = True
            # a client that was killed is no news
            handle_error = lambda self, request, address: None  # noqa: E731

        self._http = Quiet((address, port), Handler)
        self.port = self._http.server_address[1]
        self.url = f"http://{address}:{self.port}"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,))
        self._thread.start()

    def now(self):
        return time.time() + self.offset_s

    def handle(self, method, path, headers, body):
        with self._news:
            self.requests.append((method, path, dict(headers), body))
            refused = self.refuse(method, path, body)
            if refused:
                answer = refused[0], {"error": {"status": refused[0], "message": refused[1], "problems": []}}
            elif path.startswith("/v1/hosts/"):
                answer = self._register(path.rpartition("/")[2], headers, body)
            elif path == "/v1/schedule":
                answer = (
                    200,
                    {"now": self.now(), "schedule": self.schedule().to_json(), "peers": self.peers()},
                )
            elif path == "/v1/measurements":
                answer = self._put(headers, body)
            else:
                answer = 404, {"error": {"status": 404, "message": f"no {path}"}}
            self._news.notify_all()
            return answer

    def _register(self, host, headers, body):
        if host in self.keys and self.keys[host] != headers.get("X-NWS-Key"):
            return 409, {"error": {"status": 409, "message": f"another host holds the name {host}"}}
        brought = headers.get("X-NWS-Key")
        fresh = {} if host in self.keys or brought else {"key": f"key-{host}-{next(self._serial)}"}
        self.keys.setdefault(host, brought or fresh.get("key"))
        if self.hosts.get(host) != body:
            self.hosts[host] = body
            self.version += 1
        return 200, {
            "now": self.now(),
            "every": self.every,
            "schedule": self.schedule().to_json(),
            "peers": self.peers(),
            "grid": "stub",
            **fresh,
        }

    def _put(self, headers, body):
        host = headers.get("X-NWS-Host")
        if host not in self.hosts or self.keys.get(host) != headers.get("X-NWS-Key"):
            return 404, {"error": {"status": 404, "message": f"host {host} is not registered"}}
        if "status" in body:
            self.statuses.append((host, body["status"]))
        rows = [
            (body["series"][i], t, v) for i, t, v in zip(body["index"], body["t"], body["value"], strict=True)
        ]
        first = body.get("first", 0)
        known = self.next.get(body.get("source"), first)
        self.samples += rows[max(known - first, 0) :]
        following = max(first + len(rows), known)
        if "source" in body:
            self.next[body["source"]] = following
        return 200, {
            "now": self.now(),
            "accepted": len(rows),
            "next": following,
            "schedule": self.version,
            "refused": {"count": 0, "reasons": []},
        }

    def schedule(self):
        cliques = automatic(list(self.hosts), {})
        return schedule(
            cliques, version=self.version, effective_from=0.0, frame_s=self.frame_s, guard_s=self.guard_s
        )

    def peers(self):
        return {host: [body["address"], body["port"]] for host, body in self.hosts.items()}

    def until(self, condition, timeout_s=60.0):
        """Wait for requests until the condition holds; AssertionError with what was seen when it never does."""
        end = time.monotonic() + timeout_s
        with self._news:
            while not condition():
                left = end - time.monotonic()
                assert left > 0, (
                    f"waited {timeout_s} s in vain; {len(self.requests)} requests, hosts {self.hosts}"
                )
                self._news.wait(min(left, 0.5))

    def named(self, series):
        """Samples of one series, in the order they were kept."""
        return [s for s in self.samples if s[0] == series]

    def forget(self, host):
        with self._news:
            self.hosts.pop(host)
            self.keys.pop(host)

    def close(self):
        self._http.shutdown()
        self._http.server_close()
        for connection in list(self.connections):
            # those kept open would be answered for ever
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._thread.join()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()
