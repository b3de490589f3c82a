"""slurmtwin: a discrete-event twin of Slurm on Kubernetes, checked against the real thing."""

__version__ = "0.1.0"
