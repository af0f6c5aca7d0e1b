"""A simulated cluster on which parallel jobs share processors: coscheduling at the size of the papers.

Nodes have several processors, a local scheduler like that of Linux 2.4 with migration between processors, and system
daemons. Jobs compute and exchange messages in a ring or all together; ranks poll or spin-block. The policies of
`apples.coscheduling` decide, the same objects as in the daemons. `simulation.simulate` runs jobs under a policy;
`engine` is the compiled loop.
"""
