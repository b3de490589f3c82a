"""Slurm's daemons as what runs in containers: started, stopped, killed and frozen with them."""
