"""Whole systems put together, on the embedded cluster and on a real control plane."""
