"""Swell on a whole Kubernetes: real nodes, real containers, and what is left of them."""
