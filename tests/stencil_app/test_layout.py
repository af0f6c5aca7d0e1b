import pytest

from stencil_app.heat import HEAT
from stencil_app.jacobi2d import JACOBI2D


@pytest.mark.parametrize("nx", [1, 6, 7, 256])
def test_lines_start_on_cache_lines_and_planes_are_contiguous(nx):
    layout = HEAT.layout({"nx": nx, "ny": 3})
    field = layout.allocate(2)
    assert field.flags.c_contiguous
    assert (field[1, 1, 1:].ctypes.data % 64, field.strides[1] % 64) == (0, 0)
    assert field[0].nbytes == layout.message_bytes
    assert layout.interior(field).shape == (2, 3, nx)


def test_line_has_no_ghosts_along_y():
    layout = JACOBI2D.layout({"nx": 6})
    assert layout.shape(4) == (6, 1, 8)
    assert layout.interior(layout.allocate(4)).shape == (4, 1, 6)
