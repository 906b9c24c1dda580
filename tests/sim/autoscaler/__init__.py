"""The autoscaler among simulated nodes and jobs, with the real operator beside it."""
