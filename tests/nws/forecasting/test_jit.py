"""Where no directory can keep the machine code, the battery still runs."""

from __future__ import annotations

import numba

from nws.forecasting.jit import compiled


def test_without_a_cache_directory_functions_are_compiled_all_the_same(monkeypatch):
    real = numba.njit

    def njit(**options):
        if options.get("cache"):
            raise RuntimeError("cannot cache function: no locator available")
        return real(**options)

    monkeypatch.setattr(numba, "njit", njit)
    assert compiled(lambda x: x + 1)(2) == 3
