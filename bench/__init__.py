"""Figures of speed and memory: one module a subject, each with `run() -> dict`."""
