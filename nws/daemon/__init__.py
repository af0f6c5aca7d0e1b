"""The sensor daemon of one host: measures in time, keeps what it measured on disk, delivers it to a weather service.

daemon      puts the rooms together, starts and stops them
jobs        CPU and memory at their periods
turns       network probes, in the turns of this host's cliques
delivery    registration, and batches to the server, with back-off
spool       what is not delivered yet, on disk
identity    name, key and lock of this host in the state directory
interfaces  the address that MPI would use
"""
