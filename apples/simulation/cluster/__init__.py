"""A cluster on which parallel jobs share processors, in simulated time: coscheduling at the size of the papers.

Nodes of several processors, each with a local scheduler like that of Linux 2.4 and with migration between its
processors; jobs that compute and exchange messages in a ring or all together; ranks that wait by polling or by
spinning and blocking; daemons. Who runs when is decided by the objects of `apples.coscheduling`, the same that the
daemons use: nothing of a policy is written a second time here. `simulation.simulate` runs jobs under a policy;
`engine` is the compiled loop below it.
"""
