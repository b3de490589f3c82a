"""slurmctld: its tables, its two schedulers, its policies and its background loop (reference/slurm.md)."""
