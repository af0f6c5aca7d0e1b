"""`apples`: the toolbox around `apples-run`. Each command is imported when it is called."""

from __future__ import annotations

import click

from apples.cli.console import LazyGroup, run_command


def _calibrate() -> click.Command:
    from apples.cli.calibrate import calibrate

    return calibrate


def _probe() -> click.Command:
    from apples.cli.probe import probe

    return probe


def _history() -> click.Command:
    from apples.cli.history import history

    return history


def _experiment() -> click.Command:
    from apples.cli.experiment import experiment

    return experiment


def _manager() -> click.Command:
    from apples.cli.manager import manager

    return manager


def _node() -> click.Command:
    from apples.cli.node import node

    return node


def _jobs() -> click.Command:
    from apples.cli.jobs import jobs

    return jobs


def _share() -> click.Command:
    from apples.cli.share import share

    return share


def _simulate_queue() -> click.Command:
    from apples.cli.simulate_queue import simulate_queue

    return simulate_queue


def _estimate() -> click.Command:
    from apples.cli.estimate import estimate

    return estimate


def _submit() -> click.Command:
    from apples.cli.submit import submit

    return submit


def _queue() -> click.Command:
    from apples.cli.queue import queue

    return queue


def _why() -> click.Command:
    from apples.cli.queue import why

    return why


def _cancel() -> click.Command:
    from apples.cli.queue import cancel

    return cancel


toolbox = LazyGroup(
    name="apples",
    help="Tools around apples-run: calibration, history, the experiments of the papers, sharing hosts.",
    context_settings={"help_option_names": ["-h", "--help"]},
    lazy={
        "probe": ("Check hosts over ssh, and say which is slow and why.", _probe),
        "calibrate": ("Measure an application's benchmarks anew and show what runs have taught.", _calibrate),
        "history": ("Predicted against observed, run by run.", _history),
        "experiment": ("Reproduce a row of the papers' claims.", _experiment),
        "manager": ("Beat time for the node managers of a machine; keep a queue of jobs.", _manager),
        "jobs": ("Show who shares the hosts: jobs, slots, classes, nodes.", _jobs),
        "share": ("Run any MPI program so that it takes its turns.", _share),
        "node": ("Let MPI jobs that share this host take turns.", _node),
        "submit": ("Put a command into the queue.", _submit),
        "queue": ("Show the queue, and when each job should start.", _queue),
        "why": ("What a job waits for, in one sentence.", _why),
        "cancel": ("Take jobs out of the queue.", _cancel),
        "simulate-queue": ("Replay a job log under a queueing policy.", _simulate_queue),
        "estimate": ("What a batch job will really take, from what similar jobs took.", _estimate),
    },
)


def main() -> None:
    """Entry point of `apples`."""
    run_command(toolbox, "apples")
