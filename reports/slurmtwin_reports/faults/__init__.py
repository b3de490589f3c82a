"""Fault scenarios judged: milestones of a run, ranks of the recorded spans among replications, verdicts, figures."""
