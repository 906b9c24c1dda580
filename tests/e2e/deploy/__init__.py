"""The deploy files on a real control plane."""
