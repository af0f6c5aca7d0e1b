"""Daemons on hosts: unit files for systemd, and installing, configuring and starting them over ssh.

    units       the unit file of each daemon, from one template
    records     the state that a host should have: package, files, services
    agent       the program that is sent to a host; it compares and applies
    deployment  all hosts at once: progress, results, errors
    wheel       the package as one file, made from this installation
    authority   tokens and certificates, kept where the command runs
    weather     the server and the sensors of a weather service
    sharing     machine manager, node managers and queue

A host's state is computed here, without I/O; the agent on the host decides nothing.
"""
