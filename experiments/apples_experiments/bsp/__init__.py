"""A synthetic job: compute for a given time, exchange with the neighbours, and repeat (the BSP model).

The building block of coscheduling experiments: its granularity, imbalance and pattern are exactly as requested, and
every rank reports its work afterwards (Frachtenberg et al. 2005, section 3). `settings` checks the request, `work` is
the computing, `job` the loop and its report, `command` the command line.
"""
