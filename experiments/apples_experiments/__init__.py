"""Published figures, run again. Each experiment returns rows with the paper's value beside ours.

`configs/catalogue.yaml` declares the experiments, `catalogue` runs them, and `result` defines their result. Settings
are in `configs`, one file for each paper. No constant was changed to improve a row.
"""
