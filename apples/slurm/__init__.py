"""Slurm: its commands and answers, allocations, the launcher and the platform.

The only room that knows Slurm. It is loaded by its entry point, and no other room imports it.
"""
