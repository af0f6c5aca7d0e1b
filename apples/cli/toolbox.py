"""`apples`: the toolbox around `apples-run`. Each command is imported when it is called."""

from __future__ import annotations

from nws.base.command import LazyGroup, run_program

toolbox = LazyGroup(
    name="apples",
    help="Tools around apples-run: calibration, history, the experiments of the papers, sharing hosts.",
    lazy={
        "probe": ("Check hosts over ssh, and say which is slow and why.", "apples.cli.probe:probe"),
        "calibrate": (
            "Measure an application's benchmarks anew and show what runs have taught.",
            "apples.cli.calibrate:calibrate",
        ),
        "history": ("Predicted against observed, run by run.", "apples.cli.history:history"),
        "experiment": ("Reproduce a row of the papers' claims.", "apples.cli.experiment:experiment"),
        "manager": (
            "Beat time for the node managers of a machine; keep a queue of jobs.",
            "apples.cli.manager:manager",
        ),
        "jobs": ("Show who shares the hosts: jobs, slots, classes, nodes.", "apples.cli.jobs:jobs"),
        "share": ("Run any MPI program so that it takes its turns.", "apples.cli.share:share"),
        "node": ("Let MPI jobs that share this host take turns.", "apples.cli.node:node"),
        "submit": ("Put a command into the queue.", "apples.cli.submit:submit"),
        "queue": ("Show the queue, and when each job should start.", "apples.cli.queue:queue"),
        "why": ("What a job waits for, in one sentence.", "apples.cli.queue:why"),
        "cancel": ("Take jobs out of the queue.", "apples.cli.queue:cancel"),
        "simulate-queue": (
            "Replay a job log under a queueing policy.",
            "apples.cli.simulate_queue:simulate_queue",
        ),
        "estimate": (
            "What a batch job will really take, from what similar jobs took.",
            "apples.cli.estimate:estimate",
        ),
    },
)


def main() -> None:
    """Entry point of `apples`."""
    run_program(toolbox, "apples")
