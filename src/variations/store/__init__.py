"""The run store: folders, leases, identity, records; imports no torch."""
