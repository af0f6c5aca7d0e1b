"""Questions over HTTP: answers of the core, and every wrong question told what is right."""


def test_health_is_open_and_says_ok(call):
    answer = call("GET", "/healthz")
    assert answer.status_code == 200
    assert answer.json() == {"status": "ok", "store": "memory", "reason": None}
