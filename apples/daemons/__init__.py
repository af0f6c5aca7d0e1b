"""The node manager of a host and the machine manager above it: adapters between policies and processes."""
