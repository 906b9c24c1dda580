"""The three kinds of patches: each makes a new body, which is then checked as usual.

- `apply`: chooses the kind of patch, and merges by RFC 7386.
- `jsonpatch`: JSON patches by RFC 6902.
- `strategic`: strategic merge patches of built-in kinds.
"""
