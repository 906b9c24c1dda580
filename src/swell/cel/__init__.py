"""The expressions (CEL) that custom resource definitions bring.

`syntax` reads text into a tree; `compiler` checks it against the types of a schema and turns it
into closures with an estimate of its cost, `macros` helps; `program` is both in one. `library` and
the files it names hold the functions; `schemas` says which type a schema has; `rules` runs the
rules of a whole schema, and `checks` says which may be in a definition.
"""
