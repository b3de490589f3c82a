"""Slurm on Kubernetes by manifests alone, rendered as plain objects (JSON is YAML for every parser)."""
