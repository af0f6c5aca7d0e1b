"""F8: SWEEP3D twice, SAGE twice, and both, as simulated jobs of the granularity that the FCS paper states (section 4).

The real programs do not run. Their large working sets make switches between jobs costly. Two more constants for each
program model this, each fitted to one cell (`apples_experiments/configs/coscheduling.yaml`).
"""

from __future__ import annotations

from apples.coscheduling.classes import FcsConstants
from apples.coscheduling.events import Process
from apples.coscheduling.policies import CoschedulingConstants
from apples_experiments.cluster.outcome import ClusterOutcome
from apples_experiments.coscheduled import (
    FCS_CONSTANTS,
    MEDIANS,
    TableScenario,
    misses,
    run_scenario,
    table_figure,
    table_json,
    table_rows,
)
from apples_experiments.coscheduled_jobs import CS, F, sage, sage_is_frustrated, sweep3d
from apples_experiments.coscheduled_settings import Flexible, load_settings
from apples_experiments.coscheduled_tables import TABLES
from apples_experiments.result import Progress, Result, Row


def applications(progress: Progress) -> Result:
    """Return F8: Tables 7 to 9."""
    settings = load_settings().flexible
    rows: list[Row] = []
    notes: list[str] = [MEDIANS]
    tables = {}
    figure = None
    for scenario in scenarios(settings):
        outcomes = run_scenario(settings, scenario, progress)
        title = f"Table {scenario.table.number}"
        scenario_rows = table_rows(scenario, outcomes)
        notes += [f"{title}: {note}" for note in misses(scenario_rows)]
        rows += [
            Row(name=f"{title}, {row.name}", paper=row.paper, ours=row.ours, unit=row.unit)
            for row in scenario_rows
        ]
        rows.append(_class_share(scenario, outcomes["FCS"], settings))
        tables[title] = table_json(scenario, outcomes)
        figure = figure or table_figure(scenario, scenario_rows, f"SWEEP3D twice ({title})")
    assert figure is not None
    return Result(
        rows=tuple(rows),
        constants={
            **settings.as_json(),
            "fcs": {**FCS_CONSTANTS, "slice_s": settings.applications.slice_s},
        },
        seeds=settings.seeds,
        figure=figure,
        further={"tables": tables},
        notes=tuple(notes),
    )


def scenarios(settings: Flexible) -> tuple[TableScenario, ...]:
    """Return the three workloads."""
    applications_settings = settings.applications
    constants = CoschedulingConstants(fcs=FcsConstants(slice_s=applications_settings.slice_s))
    workloads = {
        7: tuple(
            sweep3d(settings, f"SWEEP3D {i}", length_s=applications_settings.sweep3d_length_s) for i in (1, 2)
        ),
        8: tuple(sage(settings, f"SAGE {i}") for i in (1, 2)),
        9: (
            sage(settings, "SAGE"),
            sweep3d(settings, "SWEEP3D", length_s=applications_settings.sweep3d_combined_length_s),
        ),
    }
    return tuple(
        TableScenario(
            table=TABLES[number],
            jobs=jobs,
            classes={
                Process(job.name, rank): CS if job.name.startswith("SWEEP3D") else F
                for job in jobs
                for rank in range(len(job.nodes))
                if job.name.startswith("SWEEP3D") or sage_is_frustrated(applications_settings, rank)
            },
            constants=constants,
        )
        for number, jobs in workloads.items()
    )


def _class_share(scenario: TableScenario, runs: tuple[ClusterOutcome, ...], settings: Flexible) -> Row:
    """Return the share of processes in class F, mean over the seeds; the paper: none of SWEEP3D, about 3/4 of SAGE."""
    ranks = sum(len(job.nodes) for job in scenario.jobs)
    frustrated = sum(kind is F for run in runs for kind in run.classes.values()) / len(runs)
    sages = sum(len(job.nodes) for job in scenario.jobs if job.name.startswith("SAGE"))
    return Row(
        name=f"Table {scenario.table.number}, FCS, processes of class F",
        paper=100 * settings.applications.sage_frustrated_share * sages / ranks,
        ours=100 * frustrated / ranks,
        unit="%",
    )
