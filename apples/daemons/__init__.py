"""The node manager of a host and the machine manager: adapters between policies and processes."""
