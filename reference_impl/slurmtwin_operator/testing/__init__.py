"""Doubles for tests: Kubernetes and Slurm in memory, and a carrier that runs a core against them, disturbed at will.

Deterministic, integer nanoseconds, no processes, no network. They keep the rules a decision can rest on (uids, drains,
requeue holds, silent nodes, cached views) and leave out everything else; the twin and kind are the judges of timing.
"""
