"""The scheduler at work: on the embedded cluster and on a real control plane."""
