"""Real Slurm and real Kubernetes, run by our harness and recorded to the project's event table."""
