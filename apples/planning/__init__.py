"""Planning, pure: arguments are a snapshot, a workload and costs; the value returned is a plan with its reasons.

No I/O, clock or randomness. The entry point is `planner.make_plan`. It joins `host_table` and `problem` (inputs as
arrays), `model` (T_i = Comp_i + Comm_i + Over_i), `desirability` (three host orders), `rank_order` (sequence of the
chain), `exact` (small pools), `groups`, `paths` and `search` (chains better than the orders), `placement`
(refusals), `minimax` and `heights` (slab heights), `bounds` (low and high), `hostlimits` and
`prices` (people's limits), `baselines` (default and smart user) and `reasons`. `advice` sets time against cost.
"""
