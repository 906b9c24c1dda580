"""The simulated world: virtual time, faults, invariants, scenarios."""
