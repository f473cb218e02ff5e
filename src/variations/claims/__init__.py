"""What the papers claim, judged by stored runs under a rule that was fixed before them."""
