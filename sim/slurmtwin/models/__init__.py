"""Models of what is not ours: Slurm's daemons, Kubernetes' components. Each is proven against the real thing."""
