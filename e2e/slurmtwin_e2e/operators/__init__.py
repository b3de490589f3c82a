"""Operators under test on a real cluster: ours and others, by one form (e2e/operators/NAME/operator.yaml)."""
