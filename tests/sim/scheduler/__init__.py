"""The live scheduler with the operator, simulated."""
