"""Collectives and models of the frameworks. Its files, in reading order:

- `framework`: a framework as `Elastic` uses it, and how it is found.
- `wire`: frames and the handshake of a line between two members.
- `host`: collectives over TCP through the meeting point, for numpy and JAX; no framework needed.
- `arrays`: a model of numpy arrays, or any object with `state_dict`.
- `jax_arrays`: arrays of JAX on their way to other members.
- `torch`: torch's process groups, DDP, and wrappers of the user's own.
"""
