"""How many nodes: a trace, a target, a search by a quick model of the queue, and the twin as the judge."""
