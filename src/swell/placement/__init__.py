"""Placement of single pods, in the place of the gang scheduler where that does not run."""
