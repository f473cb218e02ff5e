"""What a launch would do and cost, found without training. `rows` imports no torch."""
