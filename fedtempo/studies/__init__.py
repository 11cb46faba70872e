"""What is done with more than one run: comparisons, plans, checks, advice, tuning, papers."""
