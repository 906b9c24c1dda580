"""Simulation: seeds, scenarios, planted bugs."""
