"""Slurm's daemons as programs of containers (parts.py says what the world asks of them)."""
