"""Periodic jobs, and a clock that is not affected by steps of the wall clock."""
