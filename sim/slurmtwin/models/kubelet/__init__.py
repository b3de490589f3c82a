"""The kubelet: what it pins, starts, kills and reports on one node."""
