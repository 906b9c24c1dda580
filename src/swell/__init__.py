"""Swell: elastic deep-learning jobs, on one machine and on Kubernetes."""

__version__ = "0.1.0"
