"""Pictures of a solution: maps of the slice across z in the middle of the box, or profiles along a tube.

Four quantities are shown: density, gas pressure, speed and magnetic pressure. matplotlib draws, without a screen.
"""

from pathlib import Path

import numpy as np

from stencil_app.mesh.layout import Array


def _shown(found: dict[str, Array]) -> dict[str, Array]:
    return {
        "density": found["rho"],
        "pressure": found["p"],
        "speed": np.sqrt(found["vx"] ** 2 + found["vy"] ** 2 + found["vz"] ** 2),
        "magnetic pressure": 0.5 * (found["Bx"] ** 2 + found["By"] ** 2 + found["Bz"] ** 2),
    }


def draw(found: dict[str, Array], axes: dict[str, Array], title: str, path: Path) -> None:
    """Write a PNG. found : quantities [z, y, x].  axes : centres of cells along x, y, z."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 8.0), layout="constrained")
    FigureCanvasAgg(figure)
    long = [axis for axis in "xyz" if axes[axis].size > 1]
    longest = max("xyz", key=lambda axis: axes[axis].size)
    is_tube = len(long) < 2 or all(
        8 * axes[axis].size <= axes[longest].size for axis in long if axis != longest
    )
    for plot, (name, values) in zip(figure.subplots(2, 2).flat, _shown(found).items(), strict=True):
        plot.set_title(name)
        if is_tube:
            line = np.moveaxis(values, "zyx".index(longest), 0)
            plot.plot(axes[longest], line[:, line.shape[1] // 2, line.shape[2] // 2])
            plot.set_xlabel(longest)
            continue
        # the axis of fewest cells is the one that is cut
        cut = min("zyx", key=lambda axis: axes[axis].size)
        across, up = (axis for axis in "xyz" if axis != cut)
        plane = np.take(values, axes[cut].size // 2, axis="zyx".index(cut))
        half = [0.5 * (axes[axis][1] - axes[axis][0]) for axis in (across, up)]
        extent = (
            axes[across][0] - half[0],
            axes[across][-1] + half[0],
            axes[up][0] - half[1],
            axes[up][-1] + half[1],
        )
        image = plot.imshow(plane, origin="lower", extent=extent, cmap="viridis", interpolation="nearest")
        figure.colorbar(image, ax=plot, shrink=0.8)
        plot.set_xlabel(across)
        plot.set_ylabel(up)
    figure.suptitle(title)
    figure.savefig(path, format="png", dpi=100)
