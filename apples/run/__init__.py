"""One run for its user: plan, attempts, checkpoints, adaptation, report and record."""
