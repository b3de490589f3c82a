"""slurmdbd as slurmctld meets it: a queue of messages and a connection that may be away (reference/slurm.md 6)."""
