"""A run on real clients: the same strategies, in real time, with messages over a grid in place of a simulated fleet.

Nothing here depends on Flower; `fedtempo.deploy.flower` provides its grid.
"""
