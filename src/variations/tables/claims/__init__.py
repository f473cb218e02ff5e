"""Claims of the papers, judged by stored runs under a rule that was fixed before the runs were made."""
