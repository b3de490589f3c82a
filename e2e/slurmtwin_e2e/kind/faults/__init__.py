"""Faults on a real cluster of ours: each a small class that prepares, injects, proves its effect, and clears."""
