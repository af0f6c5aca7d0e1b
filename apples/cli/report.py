"""Text for the terminal: the plan's table, the reasons, and predicted against observed times.

Plain text that fits 80 columns for ordinary host names; the same on a terminal and in a log.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from nws.base.hostlist import fold

#: Ranks listed one by one; of longer chains the table shows the first and the last.
_LISTED = 40

#: Judged runs from which the report states how often ranges held.
_JUDGED = 5
#: Number of composed pairs whose path is printed.
_COMPOSED_LISTED = 10

#: Columns of a finished run by rank.
RANK_HEADER = ("host", "rank", "rows", "predicted", "observed", "waited")


def sharing_lines(sharing: Mapping[str, Any]) -> list[str]:
    """Return the lines on a run that shared its hosts: by a node manager, or by its own waits."""
    if "ranks" in sharing:
        beside = [
            f"{'fits' if one['fits'] else 'does not fit'} beside {job}: {one['own']:.2f} × its own time alone, "
            f"{one['other']:.2f} × that of {job}"
            for job, one in sharing.get("beside", {}).items()
        ]
        return process_lines(sharing["ranks"]) + beside
    waited_s, used_s = sharing["waited_s"], sharing["used_s"]
    return [
        f"ranks waited {seconds(waited_s)} in MPI, slept {sharing['sleeps']} times and used {seconds(used_s)} of CPU "
        "time for it"
    ]


def process_lines(processes: Iterable[object]) -> list[str]:
    """Return a table of the ranks, and the efficiencies if they were measured. `processes`: reports or documents"""
    from msgspec import convert

    from apples.daemons.nodeclient import efficiencies
    from apples.daemons.nodemessages import ProcessReport

    reports = convert(list(processes), list[ProcessReport])
    known = sorted(reports, key=lambda process: process.rank)
    if not known:
        return ["no rank of the job has registered with the node manager; see its messages above"]
    rows = [
        [
            f"rank {process.rank}",
            process.process_class,
            *map(seconds, (process.t_cpu_s, process.t_comm_s, process.granularity_s, process.stopped_s)),
        ]
        for process in known
    ]
    lines = table(["shared", "class", "T_cpu", "T_comm", "granularity", "stopped"], rows)
    measured = efficiencies(known)
    if measured is not None:
        lines.append(
            f"parallel efficiency {measured['parallel']:.0%} = load balance {measured['load_balance']:.0%} × "
            f"communication {measured['communication']:.0%} × CPU share {measured['cpu_share']:.0%} × "
            f"activity {measured['activity']:.0%}"
        )
    return lines


def cells(row: Sequence[object]) -> list[str]:
    """Return the texts of a row; None is a dash."""
    return ["-" if cell is None else str(cell) for cell in row]


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """Return the lines of a table; the first column is left-aligned, the others right-aligned."""
    texts = [header, *map(cells, rows)]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]

    def line(row: Sequence[str]) -> str:
        cells = [
            row[0].ljust(widths[0]),
            *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True)),
        ]
        return "  ".join(cells).rstrip()

    return [line(row) for row in texts]


def seconds(value: float | None) -> str:
    """Return seconds as text with three or four significant digits; a dash for None."""
    if value is None:
        return "-"
    return f"{value:.0f} s" if value >= 1000 else f"{value:.3g} s" if value < 100 else f"{value:.1f} s"


def _rows(entry: dict[str, Any]) -> str:
    """Return the rows of a rank; of a box also the cells in each, `rows×cells`."""
    box = entry.get("box")
    return str(entry["rows"]) if box is None else f"{entry['rows']}×{box['width']}"


def plan_lines(document: dict[str, Any]) -> list[str]:
    """Return the chain with rows and predicted parts, as for `--dry-run`."""
    parts = ("compute_s", "communicate_s", "overhead_s", "total_s")
    rows = [
        [entry["host"], entry["rank"], _rows(entry), *(seconds(entry["predicted"][part]) for part in parts)]
        for entry in document["hosts"]
    ]
    header = ["host", "rank", "rows", "compute", "communicate", "overhead", "predicted"]
    return [*table(header, _shortened(rows)), *_summary(document)]


def run_lines(document: dict[str, Any]) -> list[str]:
    """Return a table of predicted and observed times by rank, then the run's times and the prediction error."""
    rows = []
    for entry in document["hosts"]:
        seen = entry.get("observed")
        times = (None, None) if seen is None else (seen["compute_s"], seen["communicate_s"] + seen["wait_s"])
        predicted_s = entry["predicted"]["compute_s"]
        rows.append([entry["host"], entry["rank"], _rows(entry), *map(seconds, (predicted_s, *times))])
    lines = table(RANK_HEADER, _shortened(rows))
    lines += [_moved(move) for move in document.get("moves", ())]
    lines += _summary(document)
    if len(document.get("attempts", ())) > 1:
        lines += ["", *attempt_lines(document["attempts"])]
    if document["ended"] == "finished":
        lines.append(f"observed  {seconds(document['observed_s'])}{_off(document['error'])}")
    else:
        lines.append(f"the run {_ended(document)} after {seconds(document['observed_s'])}")
    return lines


def attempt_lines(attempts: Sequence[dict[str, Any]]) -> list[str]:
    """Return a table of attempts: hosts, iterations, predicted and observed times, and the reason of the end."""
    rows = [
        [
            f"attempt {entry['number']}",
            len({rank["host"] for rank in entry["hosts"]}),
            entry["first_iteration"],
            entry["first_iteration"] + entry["iterations"],
            *map(seconds, (entry["predicted_s"], entry["observed_s"])),
        ]
        for entry in attempts
    ]
    lines = table(["", "hosts", "from", "to iteration", "predicted", "observed"], rows)
    for number, entry in enumerate(attempts, 1):
        lost = "; ".join(f"{host} {how}" for host, how in entry["lost"].items())
        ending = _off(entry["error"]) or f", {_ended(entry)}{': ' if lost else ''}{lost}"
        lines[number] += ending
    return lines


def _off(error: float | None) -> str:
    """Return the error of a prediction as text, empty for None."""
    return "" if error is None else f", prediction {abs(error):.1%} too {'long' if error > 0 else 'short'}"


def _moved(move: dict[str, Any]) -> str:
    """Return a line on one move of rows and its result."""
    heights = ",".join(map(str, move["rows_after"]))
    came = f"refused: {move['refused']}" if move["refused"] else f"took {seconds(move['took_s'])}"
    return f"slabs {heights} from iteration {move['iteration']}, gain {seconds(move['gain_s'])} predicted, {came}"


def explanation_lines(document: dict[str, Any]) -> list[str]:
    """Return the reasons to take or leave each host (`--explain`)."""
    lines = [f"why ({document['planning']['candidates']} schedules compared, model {document['model']}):"]
    lines += [f"  + {entry['host']}: {entry['reason']}" for entry in document["taken"]]
    left_out: dict[str, list[str]] = {}
    for entry in document["left_out"]:
        left_out.setdefault(entry["reason"], []).append(entry["host"])
    lines += [f"  - {fold(hosts)}: {reason}" for reason, hosts in left_out.items()]
    lines += _search_lines(document["planning"])
    lines += [f"  ~ {text}" for text in document["relaxed"]]
    lines += [f"  $ {text}" for text in document.get("prices", ())]
    if document.get("cut") is not None:
        lines.append(f"  # {document['cut']['why']}")
    lines += [f"  > {text}" for text in document.get("links", ())]
    lines += [f"  · {text}" for text in document["notes"]]
    lines += _checkpoint_lines(document.get("checkpoints"))
    weather = document["snapshot"]
    lines.append(f"  weather from {weather['source']}:")
    for host in weather["hosts"][:_LISTED]:
        availability, memory = host["availability"], host["memory_bytes"]
        free = "unknown" if memory["value"] is None else f"{memory['value'] / 1e9:.2f} GB"
        lines.append(
            f"    {host['host']}: {availability['value']:.2f} of a CPU ± {availability['error'] or 0:.2f} "
            f"{'assumed ' if availability.get('assumed') else ''}"
            f"({availability['method']}, {availability['samples']} samples{_old(availability['age_s'])}), {free} free"
        )
    return lines + _link_lines(weather)


def _search_lines(planning: dict[str, Any]) -> list[str]:
    """Return lines on the solution that gave the heights, and on a search of hosts that was cut."""
    names = {
        "pulp": "an integer program (PuLP, HiGHS)",
        "minimax": "minimax",
        "lp": "the paper's linear program",
    }
    method, bound_s, lines = planning.get("allocation"), planning.get("bound_s"), []
    if method:
        bound = "" if bound_s is None else f": none end before {seconds(bound_s)}, gap {planning['gap']:.2%}"
        lines.append(f"  = rows by {names[method]}{bound}")
    return lines + ([f"  = {planning['search']}"] if planning.get("search") else [])


def _checkpoint_lines(checkpoints: dict[str, Any] | None) -> list[str]:
    if checkpoints is None:
        return []
    every = checkpoints["every"]
    often = "at the end only" if every is None else f"every {every} iterations"
    return [f"  · checkpoints {often} to {checkpoints['file']}: {checkpoints['why']}"]


#: Activity from which on it is left out of the text.
_ACTIVE = 0.995


def monitor_lines(monitor: dict[str, Any]) -> list[str]:
    """Return computing and waiting times of each rank, and the job's efficiencies (`--monitor`)."""
    if not monitor["ranks"]:
        return ["monitor: no rank has started MPI, so there are no figures"]
    rows = [
        [
            entry["rank"],
            entry["host"],
            *map(seconds, (entry["t_cpu_s"], entry["t_comm_s"])),
            entry["c_comm"],
            seconds(entry["granularity_s"]),
        ]
        for entry in monitor["ranks"]
    ]
    lines = table(["rank", "host", "computed", "in MPI", "events", "granularity"], _shortened(rows))
    unfinished = [str(entry["rank"]) for entry in monitor["ranks"] if not entry["finalized"]]
    if unfinished:
        lines.append(f"ranks that did not reach MPI_Finalize, as far as they came: {', '.join(unfinished)}")
    if monitor["missing"]:
        lines.append(f"ranks that left no figures: {', '.join(map(str, monitor['missing']))}")
    if monitor["parallel_efficiency"] is not None:
        busy = monitor["activity"] >= _ACTIVE
        activity = "" if busy else f" × activity {monitor['activity']:.1%}"
        lines.append(
            f"parallel efficiency {monitor['parallel_efficiency']:.1%} = load balance "
            f"{monitor['load_balance']:.1%} × communication {monitor['communication_efficiency']:.1%} × "
            f"CPU share {monitor['cpu_share']:.1%}{activity}  ({monitor['mpi']})"
        )
    return lines


def _link_lines(weather: dict[str, Any]) -> list[str]:
    """Return the sources of the link values, and the path of each composed pair; empty for one host."""
    links = weather["links"]
    if not (links.get("measured") or links.get("composed")):
        return []
    kinds = [f"{links[kind]} {kind}" for kind in ("measured", "composed", "nominal") if links[kind]]
    lines = [f"    links: {', '.join(kinds)}, the oldest {links['oldest_s']:.0f} s old"]
    composed = [pair for pair in links["pairs"] if "through" in pair]
    lines += [
        f"      {p['from']} → {p['to']} composed via {', '.join(p['through'])}{_old(p['age_s'])}"
        for p in composed[:_COMPOSED_LISTED]
    ]
    if links["composed"] > len(lines) - 1:
        lines.append(f"      and {links['composed'] - len(lines) + 1} more composed pairs")
    return lines


def _old(age_s: float | None) -> str:
    return "" if age_s is None else f", {age_s:.0f} s old"


def _summary(document: dict[str, Any]) -> list[str]:
    low, high = document["low_s"], document["high_s"]
    likely = "" if low == high else f"  (likely {seconds(low)} … {seconds(high)})"
    ranges = document.get("coverage", {"judged": 0})
    if likely and ranges["judged"] >= _JUDGED:
        likely = f"{likely[:-1]}; such ranges held in {ranges['held']} of {ranges['judged']} runs)"
    return [f"predicted {seconds(document['predicted_s'])}{likely}"]


def _ended(document: dict[str, Any]) -> str:
    words = {"failed": "failed", "time limit": "hit its time limit", "interrupted": "was interrupted"}
    words["adapted"] = "went on with another plan"
    return words.get(str(document["ended"]), str(document["ended"]))


def _shortened(rows: list[list[object]]) -> list[list[object]]:
    if len(rows) <= _LISTED:
        return rows
    half = _LISTED // 2
    return [*rows[:half], [f"… {len(rows) - 2 * half} more", *[""] * (len(rows[0]) - 1)], *rows[-half:]]
