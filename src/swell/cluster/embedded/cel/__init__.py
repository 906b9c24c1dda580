"""The expressions (CEL) that custom resource definitions bring.

`syntax` reads text into a tree; `compiler` checks it against the types of a schema and turns it
into closures with an estimate of its cost; `functions` and its neighbours hold the library;
`schemas` says which type a schema has; `rules` runs the rules of a whole schema.
"""
