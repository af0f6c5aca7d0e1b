"""Whole numbers that a program takes, of rows or of ranks: listed, or by a rule such as `powers of two`.

The type of `sizes` and `ranks` in application files; the planner tries no other number of ranks.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count, takewhile
from typing import Annotated

from nws.base.quantities import Parsed

#: The largest member of any set: larger meshes have no use, and their factors would take long to find.
MOST = 10**9
_WORDS = {"two": 2, "three": 3}
_RULE = re.compile(r"(multiples|powers) of (\d{1,9}|two|three)", re.ASCII)
_PRODUCT = re.compile(r"(?:(\d{1,9})\*)?([a-z](?:\*[a-z]){0,3})", re.ASCII)

_LEGAL = (
    "legal are a whole number such as 600, a list such as [200, 400], multiples of 8, powers of two, or a product: "
    "n*n, 2*n or n*m"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeNumbers:
    """A set of whole numbers; without fields all from 1.

    rule : in words.  at_least, at_most : bounds
    listed : all of them; empty for those of the other fields
    base : of powers, 0 for no powers
    factor, exponents : of products: `factor` times whole numbers, each to an exponent; from 2 if there are several
    """

    rule: str = ""
    listed: tuple[int, ...] = ()
    base: int = 0
    factor: int = 1
    exponents: tuple[int, ...] = (1,)
    at_least: int = 1
    at_most: int | None = None

    def __contains__(self, number: int) -> bool:
        if not self.at_least <= number <= self._most:
            return False
        if self.listed:
            return number in self.listed
        if self.base:
            while number % self.base == 0:
                number //= self.base
            return number == 1
        return number % self.factor == 0 and _is_product(number // self.factor, self.exponents)

    def __str__(self) -> str:
        bounds = (("at least", self.at_least if self.at_least > 1 else None), ("at most", self.at_most))
        return ", ".join(filter(None, [self.rule, *(f"{word} {n}" for word, n in bounds if n is not None)]))

    def following(self, number: int) -> int | None:
        """Return the smallest member from `number` on; None if there is none."""
        first = max(number, self.at_least)
        if first > self._most:
            return None
        if self.listed:
            return min((n for n in self.listed if n >= first and n in self), default=None)
        above = (n for n in self._by_rule(self._root(first)) if n >= first)
        return next((n for n in takewhile(self._most.__ge__, above) if n in self), None)

    def preceding(self, number: int) -> int | None:
        """Return the largest member up to `number`; None if there is none."""
        last = min(number, self._most)
        if self.listed:
            return max((n for n in self.listed if n <= last and n in self), default=None)
        below = (n for n in self._by_rule(self._root(last) + 1, -1) if n <= last)
        return next((n for n in takewhile(self.at_least.__le__, below) if n in self), None)

    @property
    def _most(self) -> int:
        return MOST if self.at_most is None else min(self.at_most, MOST)

    def _root(self, number: int) -> int:
        """Return the place in `_by_rule` of a number that is no larger than this one, or of the first number."""
        if self.base:
            return int(math.log(max(number, 1), self.base))
        return max(int((number // self.factor) ** (1 / math.gcd(*self.exponents))) - 1, 1)

    def _by_rule(self, start: int, step: int = 1) -> Iterator[int]:
        """Yield, from a place on, powers of the base or of whole numbers times the factor: all members are there."""
        exponent = math.gcd(*self.exponents)
        places: Iterable[int] = count(start) if step > 0 else range(start + 1, -1, -1)
        return (self.base**n if self.base else self.factor * n**exponent for n in places)

    def refusal(self, number: int) -> str:
        """Return the legal numbers in words, with those next to an illegal one."""
        near = [str(n) for n in (self.preceding(number), self.following(number)) if n is not None]
        return f"legal: {self}" + ("" if self.listed else f" (nearest {' and '.join(near)})")


def _is_product(number: int, exponents: tuple[int, ...]) -> bool:
    """Return whether a number is a product of whole numbers with these exponents, the largest first."""
    exponent, *further = exponents
    several, base = bool(further), 2 if further else 1
    if not several and exponent == 1:
        return number >= 1
    # Of factors with exponent 1 the smallest comes first.
    while base ** (exponent if exponent > 1 else len(exponents)) <= number:
        quotient, remainder = divmod(number, base**exponent)
        if remainder == 0 and (quotient == 1 if not several else _is_rest(quotient, tuple(further))):
            return True
        base += 1
    return False


def _is_rest(number: int, exponents: tuple[int, ...]) -> bool:
    """Return whether further factors of a product, each from 2, make up a number."""
    if len(exponents) > 1:
        return _is_product(number, exponents)
    return number > 1 and round(number ** (1 / exponents[0])) ** exponents[0] == number


ANY = WholeNumbers()


@dataclass(frozen=True, slots=True)
class _Read(Parsed):
    """A number, a list of numbers, or a rule."""

    def parse(self, value: object) -> WholeNumbers:
        entries = value if isinstance(value, list) else [value]
        listed = tuple(n for n in entries if isinstance(n, int) and not isinstance(n, bool) and n > 0)
        if listed and len(listed) == len(entries):
            return WholeNumbers(rule=", ".join(map(str, listed)), listed=listed)
        text = " ".join(value.split()) if isinstance(value, str) else ""
        if (rule := _RULE.fullmatch(text)) and (number := _WORDS.get(rule[2]) or int(rule[2])) > 1:
            powers = rule[1] == "powers"
            return WholeNumbers(rule=text, base=number if powers else 0, factor=1 if powers else number)
        if (product := _PRODUCT.fullmatch(text.replace(" ", ""))) and (factor := int(product[1] or 1)):
            exponents = sorted(Counter(product[2].split("*")).values(), reverse=True)
            return WholeNumbers(rule=text, factor=factor, exponents=tuple(exponents))
        raise ValueError(f"got {value!r:.60}; {_LEGAL}")


WholeNumbersEntry = Annotated[WholeNumbers, _Read()]
