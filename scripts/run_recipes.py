"""Run the CI files in docs/mpi-wait.md with built wheels; exit 1 if a program is started without the library.

    python scripts/run_recipes.py DIRECTORY

DIRECTORY has the wheels. `mpiexec` is a stand-in that starts one process, and the index of packages is DIRECTORY.
"""

from __future__ import annotations

import argparse
import configparser
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import yaml

PAGE = Path(__file__).resolve().parent.parent / "docs" / "mpi-wait.md"
MPIEXEC = '#!/bin/sh\nshift 2\nexec "$@"\n'
PROGRAM = '#!/bin/sh\ncase "$APPLES_WAIT $LD_PRELOAD" in "adaptive "*libmpi-wait.so) echo loaded ;; esac\n'


def recipes() -> Iterator[tuple[str, list[str]]]:
    """Yield the name of each CI system in the page, and its shell scripts in order."""
    for language, text in re.findall(r"^```(yaml|ini)\n(.*?)^```", PAGE.read_text("utf-8"), re.M | re.S):
        if language == "ini":
            parser = configparser.ConfigParser()
            parser.read_string(text)
            (environment,) = (dict(parser[name]) for name in parser.sections())
            first = environment["commands"].split()[0]
            if first not in environment["allowlist_externals"].split():
                raise SystemExit(f"{PAGE}: tox refuses {first}; add it to allowlist_externals")
            yield "tox", [f"pip install {environment['deps']}", environment["commands"]]
            continue
        document = yaml.safe_load(text)
        if isinstance(document, list):
            yield "GitHub", [step["run"] for step in document]
        for job in document.values() if isinstance(document, dict) else ():
            yield "GitLab", ["\n".join([*job["before_script"], *job["script"]])]


def run(scripts: list[str], work: Path, environment: dict[str, str]) -> str:
    """Run the scripts of a recipe, each in a shell of its own; return their output."""
    variables = work / "variables"
    variables.write_text("", encoding="utf-8")
    output = ""
    for script in scripts:
        done = subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", script],
            env={**environment, "GITHUB_ENV": str(variables)},
            cwd=work,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        output += done.stdout
        environment |= dict(line.split("=", 1) for line in variables.read_text("utf-8").splitlines())
    return output


def main(arguments: list[str]) -> int:
    """Run all recipes; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheels", type=Path)
    wheels = parser.parse_args(arguments).wheels.resolve()
    names = []
    with tempfile.TemporaryDirectory() as directory:
        work = Path(directory)
        subprocess.run([sys.executable, "-m", "venv", work / "env"], check=True)
        for path, text in ((work / "env/bin/mpiexec", MPIEXEC), (work / "program", PROGRAM)):
            path.write_text(text, encoding="utf-8")
            path.chmod(0o755)
        index = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels), "PIP_QUIET": "1"}
        environment = {**os.environ, **index, "PATH": f"{work / 'env/bin'}:{os.environ['PATH']}"}
        for name, scripts in recipes():
            if run(scripts, work, dict(environment)) != "loaded\n":
                raise SystemExit(f"{PAGE}: with the lines for {name} programs start without the library")
            run(["pip uninstall -y mpi-wait"], work, environment)
            names.append(name)
    print(f"{PAGE.name}: programs start with the library on {', '.join(names)}")
    return 0 if names == ["GitHub", "GitLab", "tox"] else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
