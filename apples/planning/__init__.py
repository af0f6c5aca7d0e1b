"""Planning, PURE: a snapshot, a workload and costs in; a plan with its reasons out.

No I/O, no clock, no randomness in here. `planner.make_plan` is the way in; the modules it joins are
`host_table` and `problem` (inputs as arrays), `model` (T_i = Comp_i + Comm_i + Over_i), `desirability` (three
host orders), `rank_order` (sequence of the chain), `groups` and `search` (better chains than the orders give),
`rescue` (when they give none), `minimax` and `linear_program` (slab heights), `bounds` (low and high),
`baselines` (default and smart user) and `reasons` (why).
"""
