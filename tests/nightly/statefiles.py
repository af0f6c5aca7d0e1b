"""State files and settings: each is written by its own writer, damaged, and read by its own reader.

A reader returns a value, or raises an error of our tree, whose message names the file. Everything else is a failure.
"""

import collections
import dataclasses
import json
import random
import tempfile
from pathlib import Path

import msgspec

from apples.applications.appfile import read_application
from apples.coscheduling.events import Process
from apples.costs.store import History, new_id
from apples.daemons import processes
from apples.daemons.journal import Journal
from apples.daemons.processes import ProcessRegistration
from apples.daemons.settings import load_settings
from apples.errors import LaunchError
from apples.hosts.hostmessages import RankRecord
from apples.livequeue.queuemessages import stored_job
from apples.livequeue.records import Submission
from apples.livequeue.store import Store
from apples.model.gridfile import load_grid_file
from apples.model.plan import Record
from apples.model.template import Benchmark
from apples.queueing.configuration import load_queue_file
from nws.base.errors import ReportedError
from nws.daemon.spool import Spool
from nws.forecasting.batteries import BatteryBank
from nws.memory.store import Memory
from nws.series import Measurement, Series
from nws.service import batteryfile
from nws.service.configfile import load_config
from tests.nightly.conversations import Failed
from tests.nightly.inputs import Generator, damaged

CONFIGS = Path(__file__).resolve().parents[2] / "configs"
CPU = Series.parse("cpu.new@alpha")


def attack_file(name, inputs, seed):
    """Read so many damaged copies of a file; return the counts, or raise `Failed` with the first that is wrong."""
    chance, results = random.Random(seed), collections.Counter()
    with tempfile.TemporaryDirectory(prefix="fuzz-") as directory:
        path, read = legal_file(name, Path(directory))
        legal = path.read_bytes()
        read(path)
        generator = Generator(chance, {}, {})
        for number in range(inputs):
            # Logs and indices of the database of the last turn belong to other content.
            for beside in path.parent.glob(f"{path.name}-*"):
                beside.unlink()
            content = damaged_file(generator, legal)
            path.write_bytes(content)
            try:
                read(path)
                results["read"] += 1
            except ReportedError as error:
                results["refused"] += 1
                if not str(error).strip():
                    raise Failed(f"{name}: an error without a message") from error
            except Exception as error:
                raise Failed(f"{name}: {error!r}, input {number}, seed {seed}: {content[:500]!r}") from error
    return results


def legal_file(name, directory):
    """Return the path of a legal file of this kind, which this call writes, and its reader."""
    if name in SETTINGS:
        source, read = SETTINGS[name]
        path = directory / Path(source).name
        path.write_bytes((CONFIGS / source).read_bytes())
        return path, read
    write, read = STATES[name]
    return write(directory), read


def damaged_file(generator, legal):
    """Return the file with an error in a value, if it is JSON, or in its bytes."""
    if legal.startswith((b"{", b"[")) and generator.chance.random() < 0.6:
        try:
            return json.dumps(generator.mutated(json.loads(legal))).encode()
        except ValueError:
            # JSON in the first line only.
            pass
    content = damaged(generator.chance, legal)
    return damaged(generator.chance, content) if generator.chance.random() < 0.3 else content


def made(kind):
    """Return an object of a class, generated from the schema that msgspec makes of it."""
    schema = msgspec.json.schema(kind)
    return msgspec.convert(Generator(random.Random(0), {}, schema).made(schema), kind)


def write_queue(directory):
    store = Store(directory / "jobs.db", create=True)
    with store.transaction():
        store.set_numbers(origin=1.0, last=2.0)
        for number in range(5):
            submission = Submission(
                token=f"t{number}", uid=0, gid=0, user="ann", project="sun", name="x", command=("true",),
                directory="/", environment={"A": "b"}, umask=18, output="/o", error="/o", procs=1, request_s=60.0,
            )  # fmt: skip
            store.add(submission, float(number))
    store.close()
    return directory / "jobs.db"


def read_queue(path):
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


def write_journal(directory):
    journal = Journal(directory / "node-a.sock")
    journal.write([ProcessRegistration(process=Process("x", 0), ranks=2, pid=3, uid=0, started=5, page="/p")])
    journal._lock.release()
    return directory / "node-a.json"


def read_journal(path):
    path.chmod(0o600)
    journal = Journal(path.with_suffix(".sock"))
    try:
        for registration in journal.read():
            # As a node manager does that starts; pids of the fuzz are no processes of its time.
            processes.adopt(dataclasses.replace(registration, started=-1))
    finally:
        journal._lock.release()


def write_batteries(directory):
    bank = BatteryBank()
    for _ in range(3):
        bank.add()
    seen = batteryfile.Seen(identity="a", names="b", cursor=3)
    batteryfile.write(directory / "batteries", [(bank.states(), 3)], 3, seen)
    return directory / "batteries"


def write_spool(directory):
    with Spool(directory / "spool.db", "alpha") as spool:
        spool.add([Measurement(CPU, float(t), 0.5) for t in range(50)])
    return directory / "spool.db"


def read_spool(path):
    with Spool(path, "alpha") as spool:
        batch = spool.oldest(100)
        spool.acknowledge(0 if batch is None else batch.first + 1)


def write_weather(directory):
    with Memory(directory / "weather.db", clock=lambda: 4000.0) as memory:
        memory.append([Measurement(CPU, float(t), 0.5) for t in range(0, 3600, 10)])
        memory.tend(budget_s=1.0)
    return directory / "weather.db"


def read_weather(path):
    with Memory(path, clock=lambda: 4000.0) as memory:
        return memory.names(), memory.summaries(), memory.samples(CPU), memory.news(0)


def write_history(directory):
    record = dataclasses.replace(made(Record), id=new_id(0.0), key="k", snapshot={"hosts": []}, workload={})
    history = History(directory / "history.db")
    history.append(record)
    history.put_benchmark("key", 64, "machine", made(Benchmark), 1.0)
    history.close()
    return history.path


def read_history(path):
    history = History(path)
    try:
        return history.records(), history.benchmarks("key"), history.training_runs("k")
    finally:
        history.close()


def write_status(directory):
    path = directory / "status-00000.json"
    record = RankRecord(
        rank=0, host="a", pid=4, keeper=3, started=1.0, ended=2.0, exit_code=0, ended_by="itself"
    )
    path.write_text(msgspec.json.encode(record).decode())
    return path


def read_status(path):
    try:
        record = msgspec.json.decode(path.read_bytes(), type=RankRecord)
    except (ValueError, TypeError, RecursionError) as error:
        # As the launcher does, which then gives up the host.
        raise LaunchError(f"{path}: {error}") from None
    return record.failed, record.shell_code, record.describe()


STATES = {
    "queue store": (write_queue, read_queue),
    "node journal": (write_journal, read_journal),
    "battery states": (write_batteries, batteryfile.read),
    "sensor spool": (write_spool, read_spool),
    "weather store": (write_weather, read_weather),
    "history": (write_history, read_history),
    "run directory": (write_status, read_status),
}
SETTINGS = {
    "grid file": ("two-sites.yaml", load_grid_file),
    "queue settings": ("queue.yaml", load_queue_file),
    "weather settings": ("weather.yaml", load_config),
    "sharing settings": ("sharing.yaml", load_settings),
    "application file": ("../examples/diffusion-mpi4py/diffusion.yaml", read_application),
}
FILES = (*STATES, *SETTINGS)
