"""`apples`: the toolbox around `apples-run`. Each command is imported when it is called."""

from nws.base.command import Extension, LazyGroup, run_program

toolbox = LazyGroup(
    name="apples",
    help="Tools around apples-run: calibration, history, the experiments of the papers, sharing hosts.",
    lazy={
        "app": ("Describe and measure your own MPI program.", "apples.cli.app:app"),
        "pieces": (
            "Print the numbers of a plan, for jobs that you start yourself.",
            "apples.cli.pieces:pieces",
        ),
        "advise": ("Advise how many hosts to use: time against cost.", "apples.cli.advise:advise"),
        "probe": ("Check hosts over ssh, and explain which is slow.", "apples.cli.probe:probe"),
        "drain": ("Make runs leave a host, and later ones avoid it.", "apples.cli.drain:drain"),
        "calibrate": (
            "Measure an application's benchmarks and show the corrections learned from runs.",
            "apples.cli.calibrate:calibrate",
        ),
        "history": ("Predicted against observed, run by run.", "apples.cli.history:history"),
        "experiment": (
            "Reproduce a row of the papers' claims.",
            Extension("apples.experiments", "command", "./experiments"),
        ),
        "manager": (
            "Coordinate the node managers of a machine; keep a queue of jobs.",
            "apples.cli.manager:manager",
        ),
        "jobs": ("Show the jobs that share the hosts: slots, classes, nodes.", "apples.cli.jobs:jobs"),
        "share": ("Coschedule any MPI program with other jobs.", "apples.cli.share:share"),
        "node": ("Coschedule the MPI jobs that share this host.", "apples.cli.node:node"),
        "deploy": (
            "Put node managers, a manager and a queue on hosts.",
            Extension("apples.commands", "deploy", "./deploy"),
        ),
        "units": (
            "Print systemd's unit files of the daemons.",
            Extension("apples.commands", "units", "./deploy"),
        ),
        "submit": ("Put a command into the queue.", "apples.cli.submit:submit"),
        "queue": ("Show the queue, and when each job should start.", "apples.cli.queue:queue"),
        "why": ("Explain in one sentence why a job waits.", "apples.cli.queue:why"),
        "cancel": ("Take jobs out of the queue.", "apples.cli.queue:cancel"),
        "simulate-queue": (
            "Replay a job log under a queueing policy.",
            "apples.cli.simulate_queue:simulate_queue",
        ),
        "estimate": (
            "Estimate the run time of a batch job from similar jobs.",
            "apples.cli.estimate:estimate",
        ),
    },
)


def main() -> None:
    """Run `apples` as a program."""
    run_program(toolbox, "apples")
