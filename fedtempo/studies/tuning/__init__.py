"""Tuning: the settings of several strategies, found with the same budget for each."""
