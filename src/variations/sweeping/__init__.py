"""Many runs as one: what to run, where, and who is at it."""
