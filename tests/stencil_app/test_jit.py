"""Kernels where there is no place to keep their machine code."""

from __future__ import annotations

import numba
import numpy as np

from stencil_app.jit import kernel


def test_without_a_cache_directory_kernels_are_compiled_all_the_same(monkeypatch):
    real = numba.njit
    kept = []

    def njit(signatures, **options):
        if options.get("cache"):
            kept.append(signatures)
            raise RuntimeError("cannot cache function: no locator available")
        return real(signatures, **options)

    monkeypatch.setattr(numba, "njit", njit)

    @kernel("void(float64[::1])")
    def double(u):
        for i in range(u.size):
            u[i] *= 2.0

    field = np.ones(3)
    double(field)
    assert (field == 2.0).all()
    assert len(double.signatures) == len(kept) == 1
