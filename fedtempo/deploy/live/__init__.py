"""A run on real clients: the same strategy object, real time, messages over a grid instead of a simulated fleet.

Nothing here knows Flower; `fedtempo.deploy.flower` brings its grid.
"""
