"""Several sweeps over a slab in one pass through memory: blocks of lines, and in each a wavefront of planes.

Two fields alternate: sweep s reads the one that sweep s - 1 wrote. In a block, sweep s works two planes behind sweep
s - 1 and one line before it, so that all that it reads is computed, and nothing is overwritten that is still read. A
block's lines stay in the second-level cache while all sweeps pass over them; memory is read and written once.
Beside a neighbour the first sweeps compute ghost planes too, one plane fewer each time.
"""

from typing import Any

from stencil_app.jit import inlined
from stencil_app.vectors import WIDTH, store, store_first, stream

#: Bytes of two fields from which one sweep stores past the caches: more than a last-level cache holds of them.
_STREAM_BYTES = 2**26
#: Part of a core's second-level cache that a block may fill.
_BLOCK_BYTES = 3 * 2**18


@inlined
def past_caches(sweeps: int, field: Any) -> bool:
    """Return whether new values are read by no sweep before they have left the caches."""
    return sweeps == 1 and 16 * field.size >= _STREAM_BYTES


def line_of(stencil: Any) -> Any:
    """Return the function, for kernels, that updates a line.

    stencil : stencil(u, i, physics), new values of the eight cells from `i` on
    """

    @inlined
    def line(u: Any, out: Any, span: tuple[int, int, int], streaming: bool, physics: Any) -> None:
        """Update cells [first, end) of a line and those of the next plane, `up` further; 0 for one plane."""
        i, end, up = span
        while i + WIDTH <= end:
            new, new_up = stencil(u, i, physics), stencil(u, i + up, physics)
            if streaming:
                stream(out, i, new)
                stream(out, i + up, new_up)
            else:
                store(out, i, new)
                store(out, i + up, new_up)
            i += WIDTH
        if i < end:
            new, new_up = stencil(u, i, physics), stencil(u, i + up, physics)
            store_first(out, i, new, end - i)
            store_first(out, i + up, new_up, end - i)

    return line


def wavefront_of(step: Any) -> Any:
    """Return the function, for kernels, that runs sweeps over a slab.

    step : step(u, out, (first plane, planes, first line, end line), physics), one or two planes from `u` into `out`
    """

    @inlined
    def wavefront(
        fields: tuple[Any, Any], planes: tuple[int, ...], lines: tuple[int, ...], physics: Any
    ) -> None:
        """Run sweeps.

        fields : float64[::1] twice; the first has the current values
        planes : sweeps, first own plane, end of own planes, 1 or 0 for a neighbour below, and above
        lines : number of lines, bytes of one, and how many a sweep is before the last one; 0: no blocks of several
        """
        one, other = fields
        sweeps, first, end, below, above = planes
        count, line_bytes, skew = lines
        block = max(4, _BLOCK_BYTES // ((4 * sweeps + 2) * line_bytes)) if skew or sweeps == 1 else count
        ghosts = sweeps - 1
        for j in range(0, count + skew * ghosts, block):
            for front in range(first - below * ghosts, end + 2 * ghosts, 2):
                for s in range(sweeps):
                    k = max(front - 2 * s, first - below * (ghosts - s))
                    number = min(front - 2 * s + 2, end + above * (ghosts - s)) - k
                    j0, j1 = max(0, j - skew * s), min(count, j + block - skew * s)
                    if number > 0 and j0 < j1:
                        u, out = (other, one) if s % 2 else (one, other)
                        step(u, out, (k, number, j0, j1), physics)

    return wavefront
