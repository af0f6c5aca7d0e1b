"""A synthetic job: compute for a given time, exchange with the neighbours, again and again (the BSP model).

The building block of coscheduling experiments: its granularity, imbalance and pattern are exactly what was asked
for, and every rank says afterwards what it did (Frachtenberg et al. 2005, section 3). `settings` checks what was
asked, `work` is the computing, `job` the loop and its report, `command` the command line.
"""
