"""Priority expressions: arithmetic over a job's fields, checked and compiled to a stack program.

The text is parsed as Python, and every node is checked against a list of legal ones. It is never executed as Python.
Examples: `wait / estimate`, `(wait / request)**3 * procs`, `1e9 if wait > 86400 else -estimate`.
"""

import ast
import math
from collections.abc import Iterator

from apples.errors import ConfigError
from apples.queueing import operations as op
from nws.base.reader import did_you_mean

FIELDS = {
    "wait": op.WAIT,
    "request": op.REQUEST,
    "estimate": op.ESTIMATE,
    "submit": op.SUBMIT,
    "procs": op.PROCS,
    "nodes": op.PROCS,
}
"""Seconds and processors. `nodes` equals `procs`, the term of the walltime paper."""

FUNCTIONS = {
    "abs": (op.ABSOLUTE, 1),
    "sqrt": (op.ROOT, 1),
    "log": (op.LOG, 1),
    "exp": (op.EXP, 1),
    "min": (op.MINIMUM, 2),
    "max": (op.MAXIMUM, 2),
}
"""Operation code and number of arguments."""

LEGAL = (
    f"fields {', '.join(FIELDS)} (seconds and processors); numbers; + - * / ** and parentheses; < <= > >= ==; "
    f"A if CONDITION else B; {', '.join(n + ('(x)', '(x, y)')[k - 1] for n, (_, k) in FUNCTIONS.items())}"
)

Step = tuple[int, float]
"""Operation code and constant (0 for operations)."""

_BINARY: dict[type[ast.operator], int] = {
    ast.Add: op.ADD,
    ast.Sub: op.SUBTRACT,
    ast.Mult: op.MULTIPLY,
    ast.Div: op.DIVIDE,
    ast.Pow: op.POWER,
}
_COMPARISONS: dict[type[ast.cmpop], tuple[int, bool]] = {
    ast.Lt: (op.LESS, False),
    ast.LtE: (op.LESS_EQUAL, False),
    ast.Gt: (op.LESS, True),
    ast.GtE: (op.LESS_EQUAL, True),
    ast.Eq: (op.EQUAL, False),
}
"""Operation code, and whether the two sides are swapped."""

_LONGEST = 300


def compile_expression(text: str) -> tuple[Step, ...]:
    """Return the stack program of an expression; raise `ConfigError` with the position and all legal elements."""
    source = text.strip()
    if not source or len(source) > _LONGEST:
        raise ConfigError(f"priority {text!r}: 1 to {_LONGEST} characters are legal; {LEGAL}")
    try:
        tree = ast.parse(source, mode="eval")
        program = tuple(_steps(tree.body, source))
    except SyntaxError as error:
        position = f" at character {error.offset}" if error.offset else ""
        raise ConfigError(f"priority {source!r}: {error.msg}{position}; legal are {LEGAL}") from None
    if _depth(program) > op.DEPTH:
        raise ConfigError(f"priority {source!r}: more than {op.DEPTH} values under way; write it shorter")
    return program


def _steps(node: ast.expr, source: str) -> Iterator[Step]:
    """Yield the postfix program of one node."""
    if isinstance(node, ast.Constant):
        yield op.CONSTANT, _number(node, source)
    elif isinstance(node, ast.Name):
        if node.id not in FIELDS:
            raise _illegal(node, source, f"unknown field{did_you_mean(node.id, list(FIELDS))}")
        yield FIELDS[node.id], 0.0
    elif isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        yield from _all((node.left, node.right), _BINARY[type(node.op)], source)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield from _all((node.operand,), op.NEGATE, source)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.UAdd):
        yield from _steps(node.operand, source)
    elif isinstance(node, ast.IfExp):
        yield from _all((node.test, node.body, node.orelse), op.SELECT, source)
    elif isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _COMPARISONS:
        code, turned = _COMPARISONS[type(node.ops[0])]
        sides = (node.left, node.comparators[0])
        yield from _all(sides[::-1] if turned else sides, code, source)
    elif isinstance(node, ast.Call):
        yield from _call(node, source)
    else:
        raise _illegal(node, source, "not legal here")


def _all(parts: tuple[ast.expr, ...], code: int, source: str) -> Iterator[Step]:
    for part in parts:
        yield from _steps(part, source)
    yield code, 0.0


def _call(node: ast.Call, source: str) -> Iterator[Step]:
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    if name not in FUNCTIONS:
        raise _illegal(node, source, f"unknown function{did_you_mean(name, list(FUNCTIONS))}")
    code, arguments = FUNCTIONS[name]
    if len(node.args) != arguments or node.keywords:
        raise _illegal(node, source, f"{name} takes {arguments} argument{'s' if arguments > 1 else ''}")
    yield from _all(tuple(node.args), code, source)


def _number(node: ast.Constant, source: str) -> float:
    value = node.value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _illegal(node, source, "not a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise _illegal(node, source, "too large")
    return number


def _illegal(node: ast.expr, source: str, why: str) -> ConfigError:
    part = ast.get_source_segment(source, node) or source
    return ConfigError(f"priority {source!r}: {part!r}: {why}; legal are {LEGAL}")


def _depth(program: tuple[Step, ...]) -> int:
    """Return the largest number of values on the stack."""
    deepest = height = 0
    for code, _ in program:
        height += (
            1 if code <= op.LAST_LEAF else 0 if code <= op.LAST_UNARY else -2 if code == op.SELECT else -1
        )
        deepest = max(deepest, height)
    return deepest
