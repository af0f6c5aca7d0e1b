"""What Slurm says and is told: records out of its answers, commands, meanings of its complaints; one thin runner."""
