"""Meanings of the error messages of Slurm's commands, each with its remedy. Pure; runs nothing.

The first mark in a line of Slurm's own decides. A message without a mark is passed on unchanged. Prologues, plugins of
a site and programs print other lines, which may hold the same words.
"""

import re

#: Lines of Slurm's commands: errors, and all. `slurm_load_jobs error: text`, `salloc: error: text`, `srun: text`
_ERROR = re.compile(r"(?:[\w.-]+: (?:error|fatal)|slurm_\w+(?: error)?): ")
_ANY = re.compile(r"(?:s(?:alloc|batch|run|info|queue|acct\w*|cancel|control)|slurm\w*): ")
#: Ends of a job that `salloc` or a step reports.
_ENDS = {
    "TIMEOUT": re.compile(r"exceeded (?:its )?time limit|due to time limit"),
    "PREEMPTED": re.compile(r"due to preemption|(?:has been|was|is being) preempted"),
}

#: Slurm's message in lower case → meaning and remedy.
_MEANINGS = (
    (
        "unable to contact slurm controller",
        "Slurm's controller cannot be reached; it is off, or cut off from this machine (scontrol ping)",
    ),
    ("unable to process configuration file", "Slurm is not configured here: {message}; set SLURM_CONF"),
    (
        "could not establish a configuration source",
        "Slurm is not configured here: there is neither slurm.conf nor a controller that gives it; run this on a "
        "login node of the cluster, or set SLURM_CONF",
    ),
    ("cannot stat file", "Slurm is not configured here: {message}; set SLURM_CONF"),
    (
        "munge",
        "Slurm cannot prove who we are: {message}; munged has to run on this machine with the cluster's key",
    ),
    (
        "authentication credential",
        "Slurm does not believe who we are: {message}; munged has to run here with the cluster's key, and clocks "
        "must agree",
    ),
    ("invalid partition name", "there is no such partition; sinfo -s lists them"),
    (
        "invalid account or account/partition",
        "Slurm refuses the account for this partition; give another with --account (sacctmgr show assoc user=$USER "
        "lists yours) or another --partition",
    ),
    ("invalid qos", "Slurm refuses the quality of service; give another with --qos (sacctmgr show qos)"),
    (
        "reservation is invalid",
        "there is no such reservation, or it is not for us; scontrol show res lists them",
    ),
    (
        "access denied to requested reservation",
        "the reservation is not for us; scontrol show res says for whom it is",
    ),
    ("invalid feature", "no node has that feature; sinfo -o '%N %f' lists them"),
    (
        "time limit is invalid",
        "Slurm refuses the time limit; give a shorter one with --time-limit, or another --partition",
    ),
    (
        "requested nodes are busy",
        "the nodes of the plan are not free just now, and --immediate does not wait longer; leave it out, or try "
        "again",
    ),
    (
        "user's group not permitted",
        "this partition is not for us; give another with --partition (scontrol show partition)",
    ),
    (
        "node configuration is not available",
        "the partition cannot give these nodes so many CPUs or so much memory: {message}",
    ),
    ("invalid node name", "Slurm knows no such node; sinfo -N lists them"),
    (
        "policy limit",
        "a limit of the account or of the quality of service forbids it: {message}; ask for less, or wait",
    ),
    ("has been cancelled", "somebody cancelled the job while it waited"),
    ("cannot create context for mpi", "srun cannot do what was asked with --mpi: {message}; srun --mpi=list"),
)


def meaning(stderr: str, code: int | None = None) -> str:
    """Return the meaning of an error message, one sentence with its remedy.

    Args:
        stderr: the command's output
        code: its exit code, None if it was killed after its time limit
    """
    lines = slurm_lines(stderr)
    for mark, what in _MEANINGS:
        for line in lines:
            if mark in line.lower():
                return what.format(message=_bare(line))
    if code is None:
        return "Slurm does not answer; its controller is off, overloaded, or cut off (scontrol ping)"
    lines = lines or stderr.strip().splitlines()[-1:]
    last = f": {_bare(lines[-1])}" if lines else ""
    return f"Slurm refused (exit code {code}){last}"


def slurm_lines(stderr: str) -> list[str]:
    """Return the lines that Slurm's commands printed: the errors, if there are any."""
    lines = [line.strip() for line in stderr.splitlines()]
    errors = [line for line in lines if _ERROR.match(line)]
    return errors or [line for line in lines if _ANY.match(line)]


def reported_end(stderr: str) -> str | None:
    """Return the state of a job whose end Slurm reported in its output, None if it did not."""
    lines = [line.lower() for line in stderr.splitlines() if _ERROR.match(line) or _ANY.match(line)]
    return next((state for state, text in _ENDS.items() if any(map(text.search, lines))), None)


def _bare(line: str) -> str:
    """Return `salloc: error: text` without its prefix."""
    for mark in (": error: ", ": fatal: "):
        line = line.rpartition(mark)[2]
    return line


#: Slurm's word for the reason of a wait → text for the user. Other words are shown unchanged.
WAITS = {
    "Resources": "for nodes that others hold",
    "Priority": "for jobs of higher priority",
    "None": "for Slurm to look at it",
    "Dependency": "for other jobs",
    "BeginTime": "for its time",
    "Reservation": "for its reservation",
    "QOSMaxJobsPerUserLimit": "for the end of other jobs of ours",
    "AssocGrpCpuLimit": "for CPUs of the account",
}

#: In the reason of a job that may not start before a reservation of its nodes has ended (`May be reserved for other
#: job`, `Reserved for maintenance`); Slurm names that time.
RESERVED = "reserved for"

#: Reasons for which a job waits forever, or until a repair → meaning for the run.
HOPELESS = {
    "PartitionTimeLimit": "the partition's time limit is shorter; give a shorter one with --time-limit",
    "PartitionNodeLimit": "the partition does not give so many nodes; use --nodes, or another --partition",
    "PartitionDown": "the partition takes no jobs now; use another with --partition",
    "PartitionInactive": "the partition is inactive; use another with --partition",
    "ReqNodeNotAvail": "nodes of the plan are not available any more",
    "NodeDown": "a node of the plan is down",
    "AccountNotAllowed": "the account may not use this partition; give another with --account",
    "QOSNotAllowed": "the quality of service may not be used here; give another with --qos",
    "InvalidAccount": "Slurm refuses the account; give another with --account",
    "InvalidQOS": "Slurm refuses the quality of service; give another with --qos",
    "BadConstraints": "no node fits the constraint; give another with --constraint",
    "JobHeldUser": "the job is held; scontrol release lets it go",
    "JobHeldAdmin": "an operator holds the job",
}


def hopeless(reason: str) -> str | None:
    """Return why a job will wait forever, None if it will not.

    Args:
        reason: Slurm's word, or its sentence with underscores for blanks
    """
    word, text = reason.partition(",")[0], reason.lower().replace("_", " ")
    if word in HOPELESS and RESERVED not in text:
        return HOPELESS[word]
    if "use this partition" in text or "not permitted" in text:
        return HOPELESS["QOSNotAllowed" if "qos" in text else "AccountNotAllowed"]
    return None
