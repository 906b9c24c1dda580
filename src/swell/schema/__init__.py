"""What objects may look like: one engine for built-in and custom kinds.

`decode` reads built-in kinds the way a typed server does; `shape` prunes and defaults custom
resources; `values` checks values; `structural` says which schemas a definition may bring. Each
compiles a schema once into closures, so that checking an object costs microseconds.
"""
