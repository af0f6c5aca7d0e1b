"""The sensor daemon of one host: measures in time, keeps measurements on disk, delivers them to a weather service.

daemon         joins the parts, starts and stops them
jobs           CPU and memory at their periods
probewindows   network probes, in the turns of this host's cliques
delivery       registration, and batches to the server, with back-off
spool          undelivered measurements, on disk
identity       name, key and lock of this host in the state directory
interfaces     the address that MPI would use
"""
