"""What runs inside the Slurm container: standard library only, started as plain scripts.

The container holds nothing of this project but these files, mounted read-only, and a plan (plan.json).
"""
