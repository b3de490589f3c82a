"""The whole event loop of a plain run on compiled code: the same events as the twin, many times as fast.

A run is plain when its jobs ask for nothing but equal one-CPU nodes and time, in one partition, and nothing fails
(eligible.py says so, and why not). The twin boots such a cluster as any other; before the first job arrives core.py
takes its state over into arrays, and loop.py plays everything from there on. Each function names the twin's module
whose rules it follows; that a run's event hash is the twin's is tested on generated workloads.
"""


class NotPlainError(Exception):
    """The run meets something that only the twin can play; its text says what."""
