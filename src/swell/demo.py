"""Shows what works today, without a cluster."""
