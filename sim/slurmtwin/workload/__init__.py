"""All inputs: Slurm's configuration files, traces (SWF, sacct, event traces, job lines) and generators."""
