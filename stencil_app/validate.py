"""The command `stencil-app validate`: values of the application beside references, one line each, or as JSON.

Exit code 0 when every check passes, 1 when one does not. It runs in one process; the help states its run time.
"""

import json
import os
import sys
from pathlib import Path

import click


@click.command()
@click.option("--quick", is_flag=True, help="small meshes: about half a minute instead of some minutes")
@click.option("--json", "as_json", is_flag=True, help="one JSON document")
@click.option(
    "--data",
    metavar="DIR",
    help="reference solutions; without them the checks that need them are left out  [default $APPLES_DATA/mhd]",
)
def validate(quick: bool, as_json: bool, data: str | None) -> None:
    """Errors of the application beside those of references, problem by problem."""
    directory = Path(data) if data else Path(os.environ.get("APPLES_DATA", "."), "mhd")
    if data and not directory.is_dir():
        raise click.UsageError(f"--data {data}: no such directory")
    from stencil_app.mhd.validation import checks

    found = []
    left_out = not directory.is_dir()
    for check in checks(quick=quick, data=None if left_out else directory):
        found.append(check)
        if not as_json:
            reference = "" if check.reference is None else f"reference {check.reference:.4g}, "
            verdict = "ok  " if check.passed else "FAIL"
            click.echo(
                f"{verdict} {check.problem}: {check.what}: {check.figure:.4g} ({reference}limit {check.limit:.4g})"
            )
    passed = all(check.passed for check in found)
    if as_json:
        document = {
            "quick": quick,
            "references": None if left_out else str(directory),
            "passed": passed,
            "checks": [check.document() for check in found],
        }
        click.echo(json.dumps(document, indent=1, ensure_ascii=False))
    elif left_out:
        click.echo(
            "no reference solutions: Brio-Wu and the Orszag-Tang slice are left out; see --data",
            err=True,
        )
    sys.exit(0 if passed else 1)
