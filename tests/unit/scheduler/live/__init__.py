"""The acting half of the scheduler, on an API server in virtual time."""
