"""The state files and settings for `fuzz.py`: each is written by its own writer, damaged, and read by its own reader.

A reader returns a value, or raises an error of our tree, whose message names the file. Everything else is a failure.
"""

from __future__ import annotations

import collections
import dataclasses
import json
import random
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fuzz_engine import Failed
from fuzz_inputs import Generator, damaged

from nws.base.errors import ReportedError

_CONFIGS = Path(__file__).resolve().parents[1] / "configs"


@dataclass(frozen=True, slots=True)
class StateFile:
    """A kind of file. `write`: makes a legal one in a directory and returns its path. `read`: its reader."""

    write: Callable[[Path], Path]
    read: Callable[[Path], object]


def attack_file(name: str, inputs: int, seed: int) -> str:
    """Read so many damaged copies of a file; return the counts, or raise `Failed` with the first that is wrong."""
    kind, chance = FILES[name], random.Random(seed)
    results: collections.Counter[str] = collections.Counter()
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="fuzz-") as directory:
        path = kind.write(Path(directory))
        legal = path.read_bytes()
        kind.read(path)
        generator = Generator(chance, {}, {})
        for number in range(inputs):
            # Logs and indices of the database of the last turn belong to other content.
            for beside in path.parent.glob(f"{path.name}-*"):
                beside.unlink()
            content = _damaged(generator, legal)
            path.write_bytes(content)
            try:
                kind.read(path)
                results["read"] += 1
            except ReportedError as error:
                results["refused"] += 1
                if not str(error).strip():
                    raise Failed(f"{name}: an error without a message") from error
            except Exception as error:
                raise Failed(
                    f"{name}: {error!r} of input {number}, seed {seed}: {content[:500]!r}"
                ) from error
    counts = ", ".join(f"{count} {result}" for result, count in sorted(results.items()))
    return f"{inputs} inputs in {time.monotonic() - begun:.0f} s, seed {seed}: {counts}"


def _damaged(generator: Generator, legal: bytes) -> bytes:
    """Return the file with an error in a value, if it is JSON, or in its bytes."""
    if legal.startswith((b"{", b"[")) and generator.chance.random() < 0.6:
        try:
            return json.dumps(generator.mutated(json.loads(legal))).encode()
        except ValueError:
            # JSON in the first line only.
            pass
    content = damaged(generator.chance, legal)
    return damaged(generator.chance, content) if generator.chance.random() < 0.3 else content


def _made(kind: type) -> Any:
    """Return an object of a class, generated from the schema that pydantic makes of it."""
    from pydantic import TypeAdapter

    adapter: TypeAdapter[Any] = TypeAdapter(kind)
    schema = adapter.json_schema()
    return adapter.validate_python(Generator(random.Random(0), {}, schema).made(schema))


def _write_queue(directory: Path) -> Path:
    from apples.livequeue.records import Submission
    from apples.livequeue.store import Store

    path = directory / "jobs.db"
    store = Store(path, create=True)
    with store.transaction():
        store.set_numbers(origin=1.0, last=2.0)
        for number in range(5):
            made = Submission(
                token=f"t{number}", uid=0, gid=0, user="ann", project="sun", name="x", command=("true",),
                directory="/", environment={"A": "b"}, umask=18, output="/o", error="/o", procs=1, request_s=60.0,
            )  # fmt: skip
            store.add(made, float(number))
    store.close()
    return path


def _read_queue(path: Path) -> object:
    from apples.livequeue.models import stored_job
    from apples.livequeue.store import Store

    store = Store(path, record=stored_job)
    try:
        return (
            store.numbers(),
            store.present(),
            store.past(),
            store.all_jobs(),
            store.usage(0),
            store.launch(1),
        )
    finally:
        store.close()


def _write_journal(directory: Path) -> Path:
    from apples.coscheduling.events import Process
    from apples.daemons.journal import Journal
    from apples.daemons.processes import ProcessRegistration

    journal = Journal(directory / "node-a.sock")
    journal.write([ProcessRegistration(process=Process("x", 0), ranks=2, pid=3, uid=0, started=5, page="/p")])
    journal._lock.release()
    return directory / "node-a.json"


def _read_journal(path: Path) -> object:
    from apples.daemons import processes
    from apples.daemons.journal import Journal

    path.chmod(0o600)
    journal = Journal(path.with_suffix(".sock"))
    try:
        for registration in journal.read():
            # As a node manager does that starts; pids of the fuzz are no processes of its time.
            processes.adopt(dataclasses.replace(registration, started=-1))
    finally:
        journal._lock.release()
    return None


def _write_batteries(directory: Path) -> Path:
    from nws.forecasting.batteries import BatteryBank
    from nws.service import batteryfile

    path, bank = directory / "batteries", BatteryBank()
    for _ in range(3):
        bank.add()
    seen = batteryfile.Seen(identity="a", names="b", cursor=3)
    batteryfile.write(path, [(bank.states(), 3)], 3, seen)
    return path


def _read_batteries(path: Path) -> object:
    from nws.service import batteryfile

    return batteryfile.read(path)


def _write_spool(directory: Path) -> Path:
    from nws.daemon.spool import Spool
    from nws.series import Measurement, Series

    path = directory / "spool.db"
    with Spool(path, "alpha") as spool:
        spool.add([Measurement(Series.parse("cpu.new@alpha"), float(t), 0.5) for t in range(50)])
    return path


def _read_spool(path: Path) -> object:
    from nws.daemon.spool import Spool

    with Spool(path, "alpha") as spool:
        batch = spool.oldest(100)
        spool.acknowledge(0 if batch is None else batch.first + 1)
        return batch


def _write_weather(directory: Path) -> Path:
    from nws.memory.store import Memory
    from nws.series import Measurement, Series

    path = directory / "weather.db"
    with Memory(path, clock=lambda: 4000.0) as memory:
        memory.append([Measurement(Series.parse("cpu.new@alpha"), float(t), 0.5) for t in range(0, 3600, 10)])
        memory.tend(budget_s=1.0)
    return path


def _read_weather(path: Path) -> object:
    from nws.memory.store import Memory
    from nws.series import Series

    with Memory(path, clock=lambda: 4000.0) as memory:
        series = Series.parse("cpu.new@alpha")
        return memory.names(), memory.summaries(), memory.samples(series), memory.news(0)


def _write_history(directory: Path) -> Path:
    from apples.learning.history import History, new_id
    from apples.model.plan import Record

    record = dataclasses.replace(_made(Record), id=new_id(0.0), key="k", snapshot={"hosts": []}, workload={})
    return History(directory).append(record)


def _read_history(path: Path) -> object:
    from apples.learning.history import History

    return History(path.parent).records()


def _write_benchmarks(directory: Path) -> Path:
    from apples.learning.benchmarkstore import CalibrationStore
    from apples.model.template import Benchmark

    CalibrationStore(directory).put("key", "machine", [_made(Benchmark)], 1.0)
    return next(directory.glob("*.json"))


def _read_benchmarks(path: Path) -> object:
    from apples.learning.benchmarkstore import CalibrationStore

    store = CalibrationStore(path.parent)
    return store.entries(), store.get("key", "machine"), store.costs("key")


def _write_status(directory: Path) -> Path:
    from apples.launching.statuses import RankRecord, status_path

    path = status_path(directory, 0)
    record = RankRecord(
        rank=0, host="a", pid=4, keeper=3, started=1.0, ended=2.0, exit_code=0, ended_by="itself"
    )
    path.write_text(json.dumps(dataclasses.asdict(record)))
    return path


def _read_status(path: Path) -> object:
    from apples.errors import LaunchError
    from apples.launching.statuses import parse_status

    try:
        record = parse_status(path.read_bytes())
    except (ValueError, TypeError, RecursionError) as error:
        # As the launcher does, which then gives up the host.
        raise LaunchError(f"{path}: {error}") from None
    return record.failed, record.shell_code, record.describe()


def _settings(name: str, load: Callable[[Path], object]) -> StateFile:
    def write(directory: Path) -> Path:
        path = directory / Path(name).name
        path.write_bytes((_CONFIGS / name).read_bytes())
        return path

    return StateFile(write, load)


def _load_grid(path: Path) -> object:
    from apples.model.gridfile import load_grid_file

    return load_grid_file(path)


def _load_queue(path: Path) -> object:
    from apples.queueing.configuration import load_queue_file

    return load_queue_file(path)


def _load_weather(path: Path) -> object:
    from nws.service.configfile import load_config

    return load_config(path)


def _load_sharing(path: Path) -> object:
    from apples.daemons.settings import load_settings

    return load_settings(path)


def _load_application(path: Path) -> object:
    from apples.applications.appfile import read_application

    return read_application(path)


FILES = {
    "queue store": StateFile(_write_queue, _read_queue),
    "node journal": StateFile(_write_journal, _read_journal),
    "battery states": StateFile(_write_batteries, _read_batteries),
    "sensor spool": StateFile(_write_spool, _read_spool),
    "weather store": StateFile(_write_weather, _read_weather),
    "history": StateFile(_write_history, _read_history),
    "benchmark store": StateFile(_write_benchmarks, _read_benchmarks),
    "run directory": StateFile(_write_status, _read_status),
    "grid file": _settings("two-sites.yaml", _load_grid),
    "queue settings": _settings("queue.yaml", _load_queue),
    "weather settings": _settings("weather.yaml", _load_weather),
    "sharing settings": _settings("sharing.yaml", _load_sharing),
    "application file": _settings("../examples/diffusion-mpi4py/diffusion.yaml", _load_application),
}
