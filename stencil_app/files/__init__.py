"""Files of a run: checkpoints, results, and writing a file whole or not at all."""
