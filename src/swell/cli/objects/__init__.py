"""Commands for objects of any kind.

- `commands`: `swell get`, `describe` and `delete`.
- `describe`: the long form of an object.
- `events`: the events about an object, and their order.
- `apply`: `swell apply`, and the three-way patch it sends.
- `top`: `swell top`.
"""
