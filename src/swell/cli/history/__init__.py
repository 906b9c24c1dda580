"""The commands about what has been: `swell history` and `swell report`.

- `lives`: records of ended jobs, and those of living ones as of now.
- `command`: `swell history`.
- `report_command`: `swell report`.
"""
