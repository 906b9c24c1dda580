"""Elastic jobs on whole clusters: they share, they train, and pictures are drawn of both."""
