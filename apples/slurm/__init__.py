"""Slurm's commands and answers: command lines, records, meanings of its errors, and one runner."""
