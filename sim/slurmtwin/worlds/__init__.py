"""Worlds: what runs a scenario and writes its event table. Here: the twin, and the registry that finds the others."""
