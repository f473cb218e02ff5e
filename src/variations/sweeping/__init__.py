"""Many runs as one: what to run, where, and which process works on each."""
