"""The FCS paper's Tables 3 to 9: completion times in seconds, by algorithm.

Each row has the jobs in the paper's order, then turnaround and mean response as printed.
"""

from __future__ import annotations

from dataclasses import dataclass

#: The paper's algorithms in its order, and the corresponding policies.
ALGORITHMS = {"FCFS": "batch", "GS": "gang", "SB": "spin-block", "FCS": "fcs"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One table. `jobs`: names of its columns. `rows`: by algorithm, a time per job, turnaround, mean response."""

    number: int
    jobs: tuple[str, ...]
    rows: dict[str, tuple[float, ...]]


TABLES = {
    table.number: table
    for table in (
        Table(
            number=3,
            jobs=("job 1", "job 2"),
            rows={
                "FCFS": (60, 120, 120, 90),
                "GS": (124, 124, 124, 124),
                "SB": (126, 134, 134, 130),
                "FCS": (125, 126, 126, 126),
            },
        ),
        Table(
            number=4,
            jobs=("job 1", "job 2"),
            rows={
                "FCFS": (120, 240, 240, 180),
                "GS": (244, 245, 245, 245),
                "SB": (193, 194, 194, 194),
                "FCS": (197, 197, 197, 197),
            },
        ),
        Table(
            number=5,
            jobs=("job 1", "job 2", "job 3"),
            rows={
                "FCFS": (60, 121, 301, 301, 161),
                "GS": (185, 186, 308, 308, 226),
                "SB": (144, 142, 244, 244, 177),
                "FCS": (192, 193, 197, 197, 194),
            },
        ),
        Table(
            number=6,
            jobs=("job 1", "job 2", "job 3"),
            rows={
                "FCFS": (120, 241, 302, 302, 221),
                "GS": (305, 305, 185, 305, 265),
                "SB": (213, 214, 276, 276, 234),
                "FCS": (252, 253, 155, 253, 220),
            },
        ),
        Table(
            number=7,
            jobs=("SWEEP3D 1", "SWEEP3D 2"),
            rows={
                "FCFS": (111, 222, 222, 167),
                "GS": (232, 232, 232, 232),
                "SB": (275, 275, 275, 275),
                "FCS": (244, 244, 244, 244),
            },
        ),
        Table(
            number=8,
            jobs=("SAGE 1", "SAGE 2"),
            rows={
                "FCFS": (126, 252, 252, 189),
                "GS": (260, 261, 261, 261),
                "SB": (274, 276, 276, 275),
                "FCS": (264, 264, 264, 264),
            },
        ),
        Table(
            number=9,
            jobs=("SAGE", "SWEEP3D"),
            rows={
                "FCFS": (126, 238, 238, 182),
                "GS": (245, 240, 245, 243),
                "SB": (240, 272, 272, 256),
                "FCS": (235, 224, 235, 230),
            },
        ),
    )
}
