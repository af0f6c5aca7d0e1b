"""Jobs that run in time, and a clock that steps of the wall clock do not move."""
