"""A small but real controller and the flaws it can be given: the simulator is proved on it."""
