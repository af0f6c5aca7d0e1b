"""Ideal magnetohydrodynamics in three dimensions: finite volumes on a staggered mesh, slabs along its last axis."""
