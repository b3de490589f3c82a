"""slurmd and slurmstepd: the daemons on the nodes and the processes they run (reference/slurm.md 4)."""
