"""Numbers in sentences for people: counts with their noun, ordinals, and times as long."""


def plural(noun: str) -> str:
    """Return the plural of a noun: "rows", "processes", "lines of cells"."""
    head, of, part = noun.partition(" of ")
    return f"{head}{'es' if head.endswith('s') else 's'}{of}{part}"


def counted(count: int, noun: str) -> str:
    """Return "1 run", "2 runs", "3 lines of cells"."""
    return f"{count} {noun if count == 1 else plural(noun)}"


def ordinal(number: int) -> str:
    """Return "1st", "2nd", "3rd", "4th", …, "11th", …"""
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def times_as_long(factor: float) -> str:
    """Return how a time compares with another, by their quotient: "4.0% longer", "11 times as long"."""
    return f"{factor - 1:.1%} longer" if factor < 2 else f"{factor:.3g} times as long"
