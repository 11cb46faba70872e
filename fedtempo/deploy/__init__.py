"""Deployments: the same strategies on real clients."""
