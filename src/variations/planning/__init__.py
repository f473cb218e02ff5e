"""What a launch would do, told before anything is spent. `rows` imports no torch."""
