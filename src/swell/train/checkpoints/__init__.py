"""Checkpoints: complete or not there at all, and never a pickle. Its files, in reading order:

- `file`: the format of one file: a header with checksums, then raw tensors.
- `folder`: names, atomic writes, the newest that is valid, and how many are kept.
- `saver`: when a checkpoint is due, and the thread that writes it.
- `schedule`: the step after which all members of a sharded model save.
"""
