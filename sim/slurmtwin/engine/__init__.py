"""The simulation engine: SimPy in integer nanoseconds, named random streams, tie rule, event sink, budgets."""
