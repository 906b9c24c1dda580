"""A real Kubernetes control plane on loopback, for the tests that need the original."""
