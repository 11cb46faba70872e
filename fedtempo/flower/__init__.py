"""Flower: its grid, its nodes, its keys. The only package that imports `flwr`."""
