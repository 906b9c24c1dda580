"""What a manifest of each kind of ours looks like: one description for validation and CRDs."""
