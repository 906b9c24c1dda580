"""Answers about a cluster as it is: why a job waits, and what would happen to one.

They are worked out from objects that were read with the asker's own rights, by the controllers'
decisions on a copy; nothing is written. `swell explain`, `swell plan` and the page show them. In
reading order:

- `reading`: everything that a session depends on, from a cluster.
- `target`: the object that an explanation is about. Pure.
- `explaining`: why a job waits, in numbers. Pure.
- `starts`: estimates of starts as people read them. Pure.
- `variants`: copies of a cluster and of a job with something changed. Pure.
- `sizing`: the autoscaler's decisions in variants of one cluster. Pure.
- `whatif`: when and where a job would start, and who would make room for it. Pure.
"""
