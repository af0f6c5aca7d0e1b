"""Hold the packages in `docs/architecture.md` to the import contracts in `pyproject.toml`.

    python scripts/architecture.py [--write]

The page has the layers of each package between two markers; they are generated. Each package of a layer must also be in
the page's table "Where code belongs", which is written by hand. Exit code 1 if the page differs; `--write` updates
the layers.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "architecture.md"
BEGIN, END = "<!-- layers: scripts/architecture.py --write -->", "<!-- end of layers -->"


def layers() -> dict[str, list[list[str]]]:
    """Return the layers of each package with a contract, highest first, each a list of its packages."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    return {
        contract["containers"][0]: [re.split(r" *[|:] *", layer) for layer in contract["layers"]]
        for contract in contracts["contracts"]
        if contract["type"] == "layers" and (ROOT / contract["containers"][0]).is_dir()
    }


def table() -> str:
    """Return the layers as text, one line per layer."""
    lines = ["```text"]
    for package, rows in layers().items():
        width = len(package) + 1
        for number, row in enumerate(rows):
            lines.append(f"{package if number == 0 else '':{width}} {'  '.join(row)}")
        lines.append("")
    return "\n".join([*lines[:-1], "```"])


def problems(page: str) -> list[str]:
    """Return one line for each difference between the page and the contracts."""
    found = []
    shown = page.partition(BEGIN)[2].partition(END)[0].strip()
    if shown != table():
        found.append("the layers differ from pyproject.toml; run scripts/architecture.py --write")
    names = {f"{package}.{name}" for package, rows in layers().items() for row in rows for name in row}
    described = page.partition("## Where code belongs")[2]
    missing = [name for name in sorted(names) if not re.search(rf"`{re.escape(name)}[`.]", described)]
    found += [f"`{name}` is missing in the table of packages" for name in missing]
    mentioned = set(re.findall(r"`((?:apples|nws)\.[a-z_]+)[`.]", page))
    found += [f"`{name}` is in the page and no package" for name in sorted(mentioned - names)]
    return found


def main(arguments: list[str]) -> int:
    """Check or update the page; return 1 if it differs."""
    page = PAGE.read_text(encoding="utf-8")
    if "--write" in arguments:
        before, _, rest = page.partition(BEGIN)
        page = f"{before}{BEGIN}\n{table()}\n{END}{rest.partition(END)[2]}"
        PAGE.write_text(page, encoding="utf-8")
    found = problems(page)
    for line in found:
        print(f"{PAGE.relative_to(ROOT)}: {line}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
