"""The world `kind`: a real Kubernetes cluster in Docker containers, made on this machine, with real Slurm pods."""
