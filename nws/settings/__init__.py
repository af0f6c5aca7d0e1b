"""What users write, read with care: YAML with file and line for every mistake, quantities with units, spans of time.

`reader` holds a file against a dataclass, `yamltree` remembers where its parts stand, `quantities` and `durations`
know how people write numbers with units. Nothing here knows what a setting means; the agent reads with it too.
"""
