"""Forecasts are current, outlive the service whatever ends it, and no forecast never made is charged with an error."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from nws.base.errors import Refused, StoreError, UnknownSeries
from nws.forecasting.batteries import BatteryBank
from nws.memory import Memory
from nws.series import Measurement, Series
from nws.service import batteryfile, forecaster
from tests.transcripts import text_of

from .helpers import START, batch, kill, registered, settings

ALPHA, BETA = "cpu.new@alpha", "network.latency@alpha>beta"


def walk(seed, n, start=START):
    rng = np.random.default_rng(seed)
    return [(start + 10.0 * i, float(v)) for i, v in enumerate(0.5 + 0.1 * rng.standard_normal(n).cumsum())]


def feed(service, samples, name=ALPHA):
    service.put(batch(*((name, t, v) for t, v in samples)), as_host=None)


def of(samples):
    battery = BatteryBank(1)
    battery.update_many([0] * len(samples), [v for _, v in samples], [t for t, _ in samples])
    return battery.forecast(0)


def forecast_of(service, name=ALPHA):
    return service.forecasts([name])[Series.parse(name)]


def test_forecast_is_that_of_the_battery(service):
    samples = walk(1, 120)
    for part in (samples[:50], samples[50:51], samples[51:]):
        feed(service, part)
        assert forecast_of(service) == of(samples[: samples.index(part[-1]) + 1])


def test_no_error_is_charged_to_a_forecast_made_from_no_data(service):
    """The first value was expected by nobody: its distance from nothing is no error."""
    feed(service, [(START, 1000.0)])
    first = forecast_of(service)
    assert np.isnan([first.mae, first.rmse]).all()
    feed(service, [(START + 10, 1003.0)])
    second = forecast_of(service)
    assert (second.mae, second.rmse) == (3.0, 3.0)
    feed(service, [(START + 20, 1003.0)])
    assert forecast_of(service).mae <= 3.0
    plot = service.plot(ALPHA, since=START, until=START + 20)
    assert np.isnan(plot.forecast[0])
    assert np.isnan(plot.error[:2]).all()
    assert plot.error[2] == 3.0


def test_constant_series_is_foretold_without_error_from_the_start(service):
    feed(service, [(START + i, 7e9) for i in range(20)])
    assert (forecast_of(service).value, forecast_of(service).mae, forecast_of(service).rmse) == (
        7e9,
        0.0,
        0.0,
    )


def test_forecasts_come_by_name(service):
    feed(service, walk(2, 3), BETA)
    feed(service, walk(1, 3), ALPHA)
    assert [str(s) for s in service.forecasts()] == [ALPHA, BETA]
    assert [str(s) for s in service.forecasts([BETA, ALPHA, BETA])] == [BETA, ALPHA]


def test_what_nobody_measured_has_no_forecast(service):
    feed(service, walk(1, 3))
    with pytest.raises(UnknownSeries, match=r"'cpu.new@beta': it has no measurements"):
        service.forecasts([ALPHA, "cpu.new@beta"])
    with pytest.raises(Refused, match="is not a series name"):
        service.forecasts(["alpha"])


def test_what_is_no_longer_kept_is_no_longer_shown(service, clock):
    feed(service, walk(1, 3))
    clock.advance(8 * 86400)
    feed(service, walk(1, 3, clock()), BETA)
    assert [s.series for s in service.series()] == [BETA]
    with pytest.raises(UnknownSeries, match="has no measurement that is kept"):
        service.forecasts([ALPHA])


def test_after_a_restart_forecasts_are_those_of_an_unbroken_service(start):
    samples, other = walk(3, 200), walk(4, 90)
    first = start()
    feed(first, samples[:120])
    feed(first, other, BETA)
    first.close()
    second = start()
    assert second.counters().restored == "saved"
    assert (forecast_of(second), forecast_of(second, BETA)) == (of(samples[:120]), of(other))
    feed(second, samples[120:])
    assert forecast_of(second) == of(samples)


def test_what_came_after_the_state_was_saved_is_replayed(start, store):
    samples = walk(5, 200)
    first = start()
    feed(first, samples[:100])
    first._parts.forecaster.save()
    feed(first, samples[100:150])
    feed(first, walk(6, 40), BETA)
    # as after a kill: nothing is saved at the end
    kill(first)
    second = start()
    assert second.counters().restored == "saved"
    assert (forecast_of(second), forecast_of(second, BETA)) == (of(samples[:150]), of(walk(6, 40)))
    feed(second, samples[150:])
    assert forecast_of(second) == of(samples)


def test_samples_between_saved_blocks_count_once(start, monkeypatch):
    """Samples arrive, one of them of a new series, while the state is written block by block."""
    samples, other, third = walk(5, 90), walk(6, 60), "cpu.new@gamma"
    first = start()
    feed(first, samples[:50])
    feed(first, other[:40], BETA)
    write = batteryfile.write

    def slowly(path, blocks, series, seen):
        def interrupted():
            for i, block in enumerate(blocks):
                feed(first, samples[50 + 10 * i : 60 + 10 * i])
                feed(first, other[40 + 10 * i : 50 + 10 * i], BETA)
                feed(first, walk(7, 30)[10 * i : 10 * i + 10], third)
                yield block

        write(path, interrupted(), series, seen)

    with monkeypatch.context() as patched:
        patched.setattr(batteryfile, "BLOCK", 1)
        patched.setattr(batteryfile, "write", slowly)
        first._parts.forecaster.save()
        kill(first)
        second = start()
    assert second.counters().restored == "saved"
    assert forecast_of(second) == of(samples[:70])
    assert forecast_of(second, BETA) == of(other[:60])
    assert forecast_of(second, third) == of(walk(7, 30)[:20])


def changed(header, **values):
    return json.dumps(json.loads(header) | values).encode()


#: Damage to the saved state: content, its header and its records -> what is left.
SPOILT = {
    "missing": lambda content, header, records: b"",
    "short": lambda content, header, records: content[:-1],
    "long": lambda content, header, records: content + b"x",
    "flipped": lambda content, *_: content[:-100] + bytes([content[-100] ^ 1]) + content[-99:],
    "no header": lambda content, header, records: records,
    "text": lambda content, header, records: b"nonsense\n",
    "not an object": lambda content, header, records: b"[]\n" + records,
    "other layout": lambda content, *_: content.replace(batteryfile.LAYOUT.encode(), b"0" * 64),
    "other format": lambda _, h, records: h.replace(b"batteries 3", b"batteries 9") + b"\n" + records,
    "another position": lambda _, header, records: changed(header, cursor=0) + b"\n" + records,
    "position beyond SQLite's": lambda _, h, records: changed(h, cursor=2**63) + b"\n" + records,
    "block without position": lambda _, header, records: changed(header, cursors=[]) + b"\n" + records,
    "position of a block beyond 64 bits": lambda _, h, records: changed(h, cursors=[2**64]) + b"\n" + records,
    "infinite position": lambda _, h, r: h.replace(b'"cursor": ', b'"cursor": 1e') + b"\n" + r,
    "deep": lambda content, header, records: b"[" * 100_000 + b"\n" + records,
}


@pytest.mark.parametrize("how", SPOILT)
def test_saved_state_that_is_no_good_is_not_used(start, store, how):
    samples = walk(7, 150)
    first = start()
    feed(first, samples)
    first.close()
    path = store.with_name("service.db.battery")
    content = path.read_bytes()
    header, _, records = content.partition(b"\n")
    path.write_bytes(SPOILT[how](content, header, records))
    second = start()
    assert second.counters().restored == "replayed"
    assert forecast_of(second) == of(samples)


def test_state_of_another_store_is_not_used(start, tmp_path):
    first, other = start(), start(store=tmp_path / "other.db")
    feed(first, walk(8, 50))
    feed(other, walk(9, 60))
    first.close()
    other.close()
    (tmp_path / "other.db.battery").replace(tmp_path / "service.db.battery")
    again = start()
    assert again.counters().restored == "replayed"
    assert forecast_of(again) == of(walk(8, 50))


def test_state_that_has_seen_more_than_the_store_is_not_used(start, store):
    """A power failure takes the end of the store's log with it, and not the state that was saved after it."""
    first = start()
    feed(first, walk(10, 50))
    first.close()
    before = {path.name: path.read_bytes() for path in store.parent.glob("service.db*")}
    second = start()
    feed(second, walk(11, 60, START + 1000))
    second.close()
    state = store.with_name("service.db.battery").read_bytes()
    for path in store.parent.glob("service.db*"):
        path.unlink()
    for name, content in before.items():
        (store.parent / name).write_bytes(content)
    store.with_name("service.db.battery").write_bytes(state)
    third = start()
    assert third.counters().restored == "replayed"
    assert forecast_of(third) == of(walk(10, 50))


def test_state_is_kept_private_and_beside_nothing(start, store):
    first = start()
    feed(first, walk(1, 5))
    first.close()
    assert store.with_name("service.db.battery").stat().st_mode & 0o777 == 0o600
    assert not list(store.parent.glob(".*"))


def test_state_is_saved_now_and_then(service, clock, store):
    feed(service, walk(1, 5))
    service.tick()
    for _ in range(40):
        clock.advance(1)
        service.tick()
    assert service.counters().battery_saves == 1
    assert store.with_name("service.db.battery").exists()
    for _ in range(100):
        clock.advance(1)
        service.tick()
    assert service.counters().battery_saves == 1, "nothing new, nothing to save"


def test_state_that_cannot_be_saved_is_counted_and_tried_again(service, clock, monkeypatch, caplog):
    feed(service, walk(1, 5))

    def full(path, *_):
        raise StoreError(f"{path}: no room")

    service.tick()
    with monkeypatch.context() as patched:
        patched.setattr(batteryfile, "write", full)
        clock.advance(31)
        service.tick()
    assert service.counters().battery_save_failures == 1
    assert "no room" in caplog.text
    assert service.health().ok, "it can be had again from the store"
    clock.advance(31)
    service.tick()
    assert service.counters().battery_saves == 1


def test_directory_that_takes_no_file_gives_one_sentence(tmp_path):
    seen = batteryfile.Seen(identity="x", cursor=1, names="y")
    with pytest.raises(StoreError, match="forecasters' state cannot be kept: No such file"):
        batteryfile.write(tmp_path / "nowhere" / "state", [], 0, seen)


def test_what_another_program_writes_into_the_store_is_foretold_too(service, store):
    feed(service, walk(1, 20))
    with Memory(store) as other:
        other.append(Measurement(Series.parse(BETA), t, v) for t, v in walk(2, 30))
        other.append([Measurement(Series.parse(BETA), START + 1000, 1e200)])
    service.tick()
    assert forecast_of(service, BETA) == of(walk(2, 30))
    assert forecast_of(service) == of(walk(1, 20))


def test_samples_of_another_program_between_batches_keep_their_order(service, store):
    samples = walk(5, 60)
    feed(service, samples[:20])
    with Memory(store) as other:
        other.append(Measurement(Series.parse(ALPHA), t, v) for t, v in samples[20:40])
    feed(service, samples[40:50])
    feed(service, samples[50:])
    assert forecast_of(service) == of(samples)


def test_outlooks_of_many_series_leave_the_lock_to_others(service, monkeypatch):
    names = [f"x.power@h{i}" for i in range(9)]
    service.put(batch(*((name, START, 1.0) for name in names)), as_host=None)
    free = []

    def pause(_):
        # another thread gets the lock
        with ThreadPoolExecutor(1) as other:
            free.append(other.submit(service._parts.forecaster.lock.acquire, timeout=10).result())
            other.submit(service._parts.forecaster.lock.release).result()

    monkeypatch.setattr(forecaster, "_OUTLOOKS", 8)
    monkeypatch.setattr(forecaster.time, "sleep", pause)
    found = service.forecasts(over_s=(60.0, 600.0))
    assert [len(one.outlooks) for one in found.values()] == [2] * 9
    assert service.snapshot(over_s=(60.0, 600.0)).outlooks.mean.shape == (9, 2)
    assert free == [True] * 4


def test_log_that_does_not_reach_back_is_no_end(start, store, clock):
    """Another program closed the hours that this service had not seen, while it was away."""
    samples = walk(1, 100)
    first = start()
    feed(first, samples[:50])
    first.close()
    clock.advance(4 * 3600)
    with Memory(store, clock=clock) as other:
        other.append(Measurement(Series.parse(ALPHA), t, v) for t, v in samples[50:])
        while other.tend(budget_s=1.0):
            pass
    second = start()
    assert forecast_of(second) == of(samples)


def test_service_in_memory_keeps_nothing(start, tmp_path):
    service = start(store=None, in_memory=True)
    feed(service, walk(1, 5))
    service.tick()
    assert forecast_of(service) == of(walk(1, 5))
    service.close()
    assert list(tmp_path.glob("*")) == []


WRITER = text_of("nws/service/forecaster_writer.txt")


def test_killed_at_any_moment_nothing_acknowledged_is_lost_and_forecasts_go_on(start, store, tmp_path):
    program = textwrap.dedent(WRITER).format(start=START)
    values = 0.5 + 0.1 * np.random.default_rng(0).standard_normal(20_000).cumsum()
    acknowledged = 0
    for life in range(3):
        with subprocess.Popen(
            [sys.executable, "-c", program, str(store)], stdout=subprocess.PIPE, text=True, env=os.environ
        ) as writer:
            assert writer.stdout.readline() == "ready\n"
            until = time.monotonic() + 0.03 + 0.05 * life
            lines = []
            while time.monotonic() < until or not lines:
                lines.append(writer.stdout.readline())
            writer.send_signal(signal.SIGKILL)
            lines += writer.stdout.readlines()
        # the last line may be half written
        numbers = [int(line) for line in lines if line.endswith("\n")]
        acknowledged = max(acknowledged, *numbers)
        service = start()
        found = service.samples(ALPHA, since=0, until=4e9, resolution="raw", most=20_000)
        assert acknowledged <= len(found.value) <= acknowledged + 7
        assert found.value.tolist() == values[: len(found.value)].tolist()
        battery = BatteryBank(1)
        battery.update_many([0] * len(found.t), found.value, found.t)
        assert forecast_of(service) == battery.forecast(0)
        kill(service)


def test_service_of_its_settings_keeps_its_file_where_they_say(tmp_path, clock):
    from nws.service.weatherservice import WeatherService

    with WeatherService(settings(store=tmp_path / "deep" / "w.db"), clock=clock) as service:
        registered(service, "alpha")
    assert (tmp_path / "deep" / "w.db").exists()


def test_without_settings_the_store_is_in_the_state_directory(state_of_its_own):
    from nws.service.serviceconfig import ServiceConfig
    from nws.service.weatherservice import WeatherService

    with WeatherService(ServiceConfig()) as service:
        assert service.path == state_of_its_own / "service.db"
    assert (state_of_its_own / "service.db").exists()
