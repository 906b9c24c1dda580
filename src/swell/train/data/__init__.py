"""Data, each sample exactly once in an epoch whatever the group's size. Files in reading order:

- `cuts`: the order of an epoch, its global batches, and a member's share of one.
- `loading`: samples loaded by threads, one batch ahead.
- `sources`: samples of map-style datasets, index ranges, and iterables that can resume.
"""
