"""What is particular to the built-in kinds and not in their schemas.

`definitions` holds the schemas and fixed defaults, `rules` puts a kind together, and each kind has
a file with its computed defaults, its cross-field rules and what may not change. `serving` is the
table of all of them.
"""
