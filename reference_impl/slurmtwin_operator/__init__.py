"""The reference operator: Slurm on Kubernetes, every design by switches.

`core` decides and is pure; `crds` describes its objects to Kubernetes; `record` and `child` carry observations and
plans as JSON; `testing` holds doubles of the API server and of Slurm. The shell that talks to a cluster is `shell`.
"""
