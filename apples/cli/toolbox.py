"""`apples`: the toolbox around `apples-run`. Each command is imported when it is called."""

from nws.base.command import Extension, LazyGroup, run_program

toolbox = LazyGroup(
    name="apples",
    help="Tools around apples-run: calibration, history, the experiments of the papers, sharing hosts.",
    package="apples.cli",
    lazy={
        "app": "Describe and measure your own MPI program.",
        "pieces": "Print the numbers of a plan, for jobs that you start yourself.",
        "advise": "Advise how many hosts to use: time against cost.",
        "probe": "Check hosts over ssh, and explain which is slow.",
        "drain": "Make runs leave a host, and later ones avoid it.",
        "calibrate": "Measure an application's benchmarks and show the corrections learned from runs.",
        "history": "Predicted against observed, run by run.",
        "experiment": "Reproduce a row of the papers' claims.",
        "manager": "Coordinate the node managers of a machine; keep a queue of jobs.",
        "jobs": "Show the jobs that share the hosts: slots, classes, nodes.",
        "share": "Coschedule any MPI program with other jobs.",
        "node": "Coschedule the MPI jobs that share this host.",
        "deploy": "Put node managers, a manager and a queue on hosts.",
        "units": "Print systemd's unit files of the daemons.",
        "submit": "Put a command into the queue.",
        "queue": "Show the queue, and when each job should start.",
        "accounting": "List jobs with times, states and exit codes.",
        "why": "Explain in one sentence why a job waits.",
        "cancel": "Take jobs out of the queue.",
        "hold": "Keep waiting jobs from starting.",
        "release": "Let held jobs go on.",
        "wait": "Wait until jobs have ended.",
        "simulate-queue": "Replay a job log under a queueing policy.",
        "when": "Predict when a job would start on a Slurm cluster.",
        "estimate": "Estimate the run time of a batch job from similar jobs.",
    },
    elsewhere={
        "experiment": Extension("apples.experiments", "command", "./experiments"),
        "deploy": Extension("apples.commands", "deploy", "./deploy"),
        "units": Extension("apples.commands", "units", "./deploy"),
    },
    modules=dict.fromkeys(("accounting", "why", "cancel", "hold", "release", "wait"), "queue"),
)


def main() -> None:
    """Run `apples` as a program."""
    run_program(toolbox, "apples")
