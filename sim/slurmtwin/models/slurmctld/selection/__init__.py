"""Node selection: slurmctld's node_scheduler.c and its select plugins, on bitmaps and classes of equal nodes."""
