"""Adapters: an operator's pure core in simulated time, with caches that lag, a queue, polls and crashes.

manifests   pods that the core writes as JSON, as the twin's objects
views       cached objects as the core's observations
slurm_port  what slurmrestd answers, and what it is asked to do
carrying    how a core is carried: polls, queue, lease, what is disturbed
operator_process    the process: passes, memory written ahead, actions one by one, crash points
"""
