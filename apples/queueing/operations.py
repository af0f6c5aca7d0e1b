"""Operation codes of the stack program of a priority expression: leaves, unary, binary and ternary operations."""

CONSTANT, WAIT, REQUEST, ESTIMATE, SUBMIT, PROCS = 0, 1, 2, 3, 4, 5
LAST_LEAF = 5

NEGATE, ABSOLUTE, ROOT, LOG, EXP = 10, 11, 12, 13, 14
LAST_UNARY = 14

ADD, SUBTRACT, MULTIPLY, DIVIDE, POWER = 20, 21, 22, 23, 24
MINIMUM, MAXIMUM, LESS, LESS_EQUAL, EQUAL = 25, 26, 27, 28, 29

SELECT = 40
"""Three values: condition, value if it is not 0, value if it is 0."""

#: Size of the stack; expressions that need more are rejected.
DEPTH = 32
