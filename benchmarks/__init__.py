"""How fast fedtempo is, as ratios within one run: `python -m benchmarks.run`, or `.quick` for four figures."""
