"""From what real Slurm left behind (logs, jobcomp, the driver's notes) to the project's event table."""
