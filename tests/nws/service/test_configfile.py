"""The settings file: what is read, and every mistake told with its line."""

import dataclasses
from pathlib import Path

import pytest

from nws.base.errors import ConfigError
from nws.memory import Keep
from nws.service.configfile import load_config
from nws.service.serviceconfig import Every, Limits, Listen, ServiceConfig, parse_listen
from nws.sources.prometheussettings import PrometheusSettings
from tests.transcripts import recorded, text_of

SHIPPED = Path(__file__).parents[3] / "configs" / "weather.yaml"


@pytest.fixture
def written(tmp_path):
    def write(text):
        path = tmp_path / "weather.yaml"
        path.write_text(text)
        return path

    return write


def problems(path):
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    return [line.removeprefix(f"{path}:") for line in caught.value.problems]


def test_file_that_sets_nothing_sets_nothing(written):
    assert load_config(written("{}")) == ServiceConfig()


def test_shipped_file_says_the_defaults():
    assert load_config(SHIPPED) == dataclasses.replace(ServiceConfig(), grid="our machines")


def test_what_the_shipped_file_has_in_comments_is_legal_too(written):
    lines = SHIPPED.read_text().splitlines()
    keys = ("store:", "tokens:", "  read:", "  write:", "  admin:", "tls:", "sites:", "  east:", "  west:")
    keys += ("cliques:", "  between:", "prometheus:", "  - {url")
    said = [line[2:] if line.startswith(tuple(f"# {key}" for key in keys)) else line for line in lines]
    config = load_config(written("\n".join(said)))
    assert config.tokens
    assert config.cliques["between"].members == ("e1", "w1")
    assert config.prometheus[0].url == "http://127.0.0.1:9090"


def test_everything_can_be_set(written, tmp_path):
    path = written(text_of("nws/service/settings_whole.txt").replace("200ms", "0.2"))
    config = load_config(path)
    assert config.listen == Listen(host="::1", port=0)
    assert config.store == tmp_path / "data" / "weather.db"
    assert config.tokens.read == (tmp_path / "r.token", Path("/etc/r2.token"))
    assert config.tls.key == tmp_path / "host.key"
    assert config.keep == Keep(samples_s=86400, minutes_s=2 * 86400, ten_minutes_s=3 * 86400)
    assert config.limits == Limits(
        body_bytes=1_000_000,
        requests_per_minute=60,
        series_per_host=10,
        hosts=20,
        ahead_s=3600,
        streams_per_host=3,
        composed_pairs=99,
    )
    assert config.every == Every(cpu_s=5, memory_s=60, deliver_s=15)
    assert (config.frame_s, config.guard_s, config.clique_most, config.lost_after_s) == (8, 0.2, 4, 90)
    assert config.sites == {"e1": "east", "e2": "east", "w1": "west"}
    assert (config.cliques["east"].members, config.cliques["east"].every_s) == (("e1", "e2"), 60)
    assert config.prometheus == (
        PrometheusSettings(
            url="http://127.0.0.1:9090",
            every_s=30,
            hosts={"10.0.0.1:9100": "alpha"},
            match='job="node"',
            over_s=120,
            nice_counts=True,
            timeout_s=9,
            user="nws",
            password_file=tmp_path / "p.secret",
            ca=Path("/etc/ca.pem"),
        ),
    )


def test_all_mistakes_of_form_are_told_at_once(written):
    path = written(
        "grid: lab\nlisten: 8090\nkeeps: {}\nkeep: {samples: soon}\nlimits: {hosts: 0, body: 4MX}\n"
    )
    found = problems(path)
    assert [line.partition(":")[0] for line in found] == ["2", "3", "4", "5", "5"]
    assert found[1] == (
        "3: keeps: unknown key (did you mean keep?); legal keys are grid, listen, store, tokens, tls, keep, limits, "
        "every, frame, guard, clique_most, lost_after, sites, cliques, prometheus"
    )
    assert found[2].startswith("4: keep.samples: time 'soon' is not a span of time; legal are 90, 90s")


@recorded("nws/service/config_problems.txt", "text")
def test_each_mistake_says_what_is_legal(written, answered, text):
    answered(problems(written(text)))


def test_file_that_is_not_there(tmp_path):
    with pytest.raises(ConfigError, match="no such file"):
        load_config(tmp_path / "nowhere.yaml")


@recorded("nws/service/listen_addresses.txt", "text")
def test_where_to_listen(answered, text):
    found = parse_listen(text)
    answered(str((str(found), found.loopback)))
