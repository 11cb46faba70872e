"""Recommends a strategy from short trainings of all strategies that fit a configuration."""
