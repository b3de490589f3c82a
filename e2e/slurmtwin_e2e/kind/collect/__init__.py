"""What happened on a cluster: watches, clocks, logs and the observer's notes, turned into the event table."""
