"""Commands for objects of any kind.

- `commands`: `swell get`, `describe` and `delete`.
- `describe`: the long form of an object, with its events.
- `apply`: `swell apply`, and the three-way patch it sends.
- `top`: `swell top`.
"""
