"""From overrides to a typed configuration, and every fault of one."""
