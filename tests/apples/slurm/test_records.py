"""Slurm's answers, read; and what they cannot say."""

import math
from datetime import datetime

from apples.slurm import records
from tests.transcripts import recorded, text_of

NODE = text_of("apples/slurm/records_node.txt")
PARTITION = (
    "PartitionName=all AllowGroups=ALL Default=YES MaxNodes=UNLIMITED MaxTime=1-02:00:00 Nodes=n[1-3],m7 "
    "OverSubscribe=NO State=UP TotalCPUs=8"
)
JOB = (
    "JobId=7 JobName=x UserId=root(0) JobState=RUNNING Reason=None Dependency=(null) TimeLimit=00:10:00 "
    "StartTime=2026-01-01T10:00:00 EndTime=2026-01-01T10:10:00 Partition=all NodeList=n[1-2]"
)
NOW = datetime(2026, 1, 1, 10, 4)


def test_a_node():
    node = records.parse_nodes(NODE + "\n\n")["n1"]
    assert (node.cpus, node.allocated_cpus, node.threads, node.address) == (8, 2, 2, "10.0.0.1")
    assert (node.memory_bytes, node.allocated_bytes, node.free_bytes) == (
        1000 * 2**20,
        200 * 2**20,
        900 * 2**20,
    )
    assert (node.features, node.states) == (("ib", "big"), ("MIXED", "DRAIN"))
    assert node.away == "is drained: memory errors"


@recorded("apples/slurm/node_states.txt", "state")
def test_nodes_in_which_nothing_is_started(answered, state):
    answered(records.parse_nodes(f"NodeName=a State={state}")["a"].away)


def test_node_of_which_little_is_known():
    node = records.parse_nodes("NodeName=a State=DOWN* CPULoad=N/A FreeMem=N/A RealMemory=1")["a"]
    assert math.isnan(node.free_bytes)
    assert node.cpus == 1


def test_partitions():
    found = records.parse_partitions(
        f"{PARTITION}\nPartitionName=gang OverSubscribe=FORCE:3 Nodes=n1 State=DOWN\n"
    )
    one, gang = found["all"], found["gang"]
    assert (one.nodes, one.default, one.max_time_s) == (("n1", "n2", "n3", "m7"), True, 26 * 3600)
    assert (one.shared, one.exclusive) == (1, False)
    assert (gang.shared, gang.state, gang.default, gang.max_time_s) == (3, "DOWN", False, math.inf)
    assert records.parse_partitions("PartitionName=x OverSubscribe=EXCLUSIVE Nodes=(null)")["x"].exclusive


def test_jobs():
    job = records.parse_job(JOB, NOW)
    assert (job.number, job.state, job.left_s) == ("7", "RUNNING", 360)
    unlimited = records.parse_job("JobId=8 JobState=RUNNING TimeLimit=UNLIMITED EndTime=Unknown", NOW)
    assert unlimited.left_s == math.inf
    waiting = records.parse_job(
        "JobId=9 JobState=PENDING Reason=Resources StartTime=Unknown EndTime=Unknown", NOW
    )
    assert (waiting.reason, waiting.expected) == ("Resources", "")
    assert math.isnan(waiting.left_s)
    assert records.parse_job("", NOW) is None


def test_what_a_job_has_on_each_node():
    text = "JobId=1 NodeList=n[1-3]   Nodes=n1 CPU_IDs=0-1,4 Mem=200 GRES=   Nodes=n[2-3] CPU_IDs=0 Mem=100 GRES="
    assert records.allocated_cpus(text) == {"n1": 3, "n2": 1, "n3": 1}
    jobs = [f"JobState={state} {text}" for state in ("RUNNING", "SUSPENDED", "PENDING")]
    assert records.held_cpus("\n".join(jobs)) == {"n1": 6, "n2": 2, "n3": 2}
    assert records.allocated_memory(text) == {"n1": 200 * 2**20, "n2": 100 * 2**20, "n3": 100 * 2**20}


def test_mpi_types_in_both_spellings():
    new = "MPI plugin types are...\n\tpmix\n\tnone\n\tpmi2\nspecific pmix plugin versions available: pmix_v4"
    old = "srun: MPI types are...\nsrun: pmi2\nsrun: none"
    assert records.parse_mpi_types(new) == ("pmix", "none", "pmi2")
    assert records.parse_mpi_types(old) == ("pmi2", "none")


def test_the_configuration():
    found = records.parse_configuration(
        "Configuration data as of now\nClusterName             = lab\nX = a=b\n"
    )
    assert found == {"ClusterName": "lab", "X": "a=b"}
