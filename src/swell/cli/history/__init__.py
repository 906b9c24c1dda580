"""The commands about what has been: `swell history`.

- `lives`: records of ended jobs, and those of living ones as of now.
- `command`: `swell history`.
"""
