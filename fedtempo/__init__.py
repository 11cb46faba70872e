"""fedtempo: federated learning on a virtual clock."""

__version__ = "0.1.0"
