"""Priority of a waiting job at one instant: the higher value starts first.

FCFS scores the wait, SJF the shortest estimate. WFP scores the cube root of the paper's equation 5, which gives the
same order. An expression is run as a stack program (made by `apples.queueing.expressions`).
"""

import math

import numpy as np

from apples.queueing import operations as op
from apples.queueing.jit import part, unit
from apples.queueing.state import FCFS, QUEUE, QUEUED, RANK, SJF, SUBMIT, WFP, QueueState, Rules


@part
def score_all(state: QueueState, rules: Rules, now: float) -> None:
    """Set `state.scores[place]` for every place in the queue."""
    for position in range(state.counts[QUEUED]):
        state.scores[position] = score(state, rules, position, now)


@part
def score(state: QueueState, rules: Rules, position: int, now: float) -> float:
    """Return the score of the job at one place. A value that is not a number is the lowest score."""
    if rules.priority == WFP:
        value = state.columns[RANK, position] * (now - state.columns[SUBMIT, position])
    elif rules.priority == SJF:
        value = state.columns[RANK, position]
    elif rules.priority == FCFS:
        value = now - state.columns[SUBMIT, position]
    else:
        value = _run(state, rules, state.lists[QUEUE, position], now)
    return float(value) if value == value else -np.inf


@unit
def _run(state: QueueState, rules: Rules, slot: int, now: float) -> float:
    """Return the value of the expression for one job."""
    stack, top = rules.stack, -1
    for index in range(len(rules.operations)):
        code = rules.operations[index]
        if code <= op.LAST_LEAF:
            top += 1
            stack[top] = _leaf(state, rules, slot, now, index)
        elif code <= op.LAST_UNARY:
            stack[top] = _unary(code, stack[top])
        elif code == op.SELECT:
            top -= 2
            stack[top] = stack[top + 1] if stack[top] != 0.0 else stack[top + 2]
        else:
            top -= 1
            stack[top] = _binary(code, stack[top], stack[top + 1])
    return float(stack[0])


@part
def _leaf(state: QueueState, rules: Rules, slot: int, now: float, index: int) -> float:
    code = rules.operations[index]
    if code == op.CONSTANT:
        return float(rules.constants[index])
    if code == op.WAIT:
        return float(now - state.jobs[slot]["submit"])
    if code == op.REQUEST:
        return float(state.jobs[slot]["request"])
    if code == op.ESTIMATE:
        return float(state.jobs[slot]["priority_s"])
    if code == op.SUBMIT:
        return float(state.jobs[slot]["submit"])
    return float(state.jobs[slot]["procs"])


@part
def _unary(code: int, value: float) -> float:
    if code == op.NEGATE:
        return -value
    if code == op.ABSOLUTE:
        return abs(value)
    if code == op.ROOT:
        return math.sqrt(value) if value >= 0.0 else np.nan
    if code == op.LOG:
        return math.log(value) if value > 0.0 else np.nan if value < 0.0 else -np.inf
    return math.exp(value)


@part
def _binary(code: int, left: float, right: float) -> float:
    if code <= op.POWER:
        return _arithmetic(code, left, right)
    if code == op.MINIMUM:
        return min(left, right)
    if code == op.MAXIMUM:
        return max(left, right)
    if code == op.LESS:
        return 1.0 if left < right else 0.0
    if code == op.LESS_EQUAL:
        return 1.0 if left <= right else 0.0
    return 1.0 if left == right else 0.0


@part
def _arithmetic(code: int, left: float, right: float) -> float:
    if code == op.ADD:
        return left + right
    if code == op.SUBTRACT:
        return left - right
    if code == op.MULTIPLY:
        return left * right
    if code == op.DIVIDE:
        return left / right
    return float(left**right)
