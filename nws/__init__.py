"""Network Weather Service: measure what hosts deliver, keep it, forecast it. Knows nothing of schedulers."""
