"""What Slurm says and is told: records out of its answers, command lines, meanings of its complaints; one thin runner."""
