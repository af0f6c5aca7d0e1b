"""The event loop of daemons, with its listeners, line streams, timers and name lookups."""
