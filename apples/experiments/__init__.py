"""Published figures, run again: each experiment gives rows with the paper's figure beside ours.

`catalogue` lists them and finds the module of each; `result` is what all of them give. Wolski et al. 2000 is
`host_counts` (A1, A3), `model_accuracy` (A2), `loaded_runs` (A4-A6), `planning_cost` (A7) and `schedules` (A8, A9)
on top of `mock_runs`; its settings are `configs/experiments/wolski2000.yaml`. B1 is in no paper: `two_sites` and
`ablation` on top of `site_runs`, settings `configs/experiments/two-sites.yaml`. Nothing here is tuned to a row.
"""
