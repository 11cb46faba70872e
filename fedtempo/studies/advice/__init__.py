"""Advice: short trainings of all strategies that fit, and the recommendation that they support."""
