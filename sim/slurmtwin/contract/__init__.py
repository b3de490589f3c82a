"""What every world, model and checker agrees on: time, units, jobs, scenarios, events, manifests.

The lowest layer. It imports the standard library, pydantic and ruamel.yaml, nothing of ours above it.
"""
