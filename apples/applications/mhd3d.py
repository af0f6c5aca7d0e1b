"""Three-dimensional magnetohydrodynamics as a template: a blast in a magnetised gas, a row is a plane of nx × ny cells.

It takes the place of the paper's PMHD3D (Wolski et al. 2000, §2.2) and is the default of `apples-run`. A run is a
number of cycles, whatever time they reach, because its length must be known before it begins. The box is the unit
cube for every size: a larger one resolves it more finely along z.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from apples.applications.slab_stencil import SlabProgram
from apples.model.template import Workload
from stencil_app.mhd.case import COMMON
from stencil_app.mhd.problems import blast
from stencil_app.mhd.settings import EVERY, HISTORY_EVERY
from stencil_app.options import Option, Value

#: Resident memory of a rank beside field and scratch (interpreter, MPI, kernels), measured on Linux x86-64 as
#: 165-180 MB.
PROCESS_BYTES = 185e6
#: Time to end at: never, in units in which a blast is over at 0.2.
_NEVER = "1e30"

NX = Option(name="nx", default="64", at_least=4, help="cells along x, the lines of a plane")
NY = Option(name="ny", default="64", at_least=4, help="cells along y")
CYCLES = Option(name="iterations", default="100", at_least=0, help="cycles")


class Mhd3d(SlabProgram):
    """`apples.model.template.Template` of the blast.

    Options are nx, ny, those of the blast but its size, courant, iterations, history_every, checkpoint_every, and the
    files checkpoint, history and out.
    """

    name = "mhd3d"
    summary = "3-D ideal magnetohydrodynamics: a blast in a magnetised gas"
    words = ("mhd", "blast")
    warm = kept_as = "mhd"
    mesh = (NX, NY, *(o for o in (*blast.OPTIONS, *COMMON) if o.name not in ("n", "nx", "ny", "nz")))
    run = (CYCLES, HISTORY_EVERY, EVERY)
    paths = ("checkpoint", "history", "out")

    def workload(self, size: int, options: Mapping[str, str]) -> Workload:
        """Return demands with three ghost planes to each neighbour in each cycle.

        Memory: two fields of 8 numbers a cell, and of each slab its ghost planes and its scratch.
        """
        from stencil_app.mhd.mesh import MeshLayout

        cycles = int(self._value(CYCLES, options))
        nx, ny = (int(self._value(option, options)) for option in (NX, NY))
        layout = MeshLayout(ni=nx, nj=ny, slabbed=True)
        return Workload(
            application=self.name,
            size=size,
            iterations=cycles,
            messages=float(cycles),
            bytes_exchanged=float(cycles * layout.message_bytes),
            bytes_per_row=2.0 * layout.plane_bytes,
            bytes_fixed=PROCESS_BYTES + 2.0 * layout.field_bytes(0) + layout.scratch_bytes,
            min_rows=layout.least_rows,
        )

    def parameters(self, size: int, options: Mapping[str, str]) -> Mapping[str, Value]:
        """Return the parameters of the answer (`SlabProgram.parameters`)."""
        own = {option.name: options.get(option.name, option.default) for option in self.mesh}
        texts = {**own, "nz": str(size)}
        every = (*blast.OPTIONS, *COMMON)
        return {"problem": "blast", **{o.name: o.parse(texts.get(o.name, o.default)) for o in every}}

    def command(self, rows: Sequence[int], run_dir: Path, options: Mapping[str, str]) -> list[str]:
        """Return program and arguments of every rank (`apples.model.template.Template.command`)."""
        own = ["--nz", str(sum(rows)), "--until", _NEVER, *self._flags_of_defaults(options)]
        return [*super().command(rows, run_dir, options), *own]

    def benchmark_command(
        self, output: Path, options: Mapping[str, str], rows: int | None = None
    ) -> list[str]:
        """Return program and arguments of a benchmark (`apples.model.template.Template.benchmark_command`)."""
        from stencil_app.mhd.mesh import SLAB_GHOSTS

        height = None if rows is None else max(rows, SLAB_GHOSTS)
        return [
            *super().benchmark_command(output, options, height),
            *self._flags_of_defaults(options, (NX, NY)),
        ]

    def _flags_of_defaults(
        self, options: Mapping[str, str], those: Sequence[Option] = (NX, NY, CYCLES)
    ) -> list[str]:
        """Return the arguments for options whose default differs from the program's."""
        return [word for o in those if o.name not in options for word in (o.flag, o.default)]


TEMPLATE = Mhd3d()
