"""Pairs of hosts: when each is measured, and estimates for pairs that are not measured directly."""
