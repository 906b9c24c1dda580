"""The container image of Swell, made without a container engine."""
