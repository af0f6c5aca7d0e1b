"""One run: its loop, its timing, its records, and how it is steered and stopped."""
