"""Schemas of Kubernetes objects: one engine for built-in and custom kinds.

Each part compiles a schema once into closures, so that checking an object costs microseconds. The
package knows objects as plain dictionaries and nothing of clusters or expressions.

Files, in the order in which a written object meets them:

- `field_errors`: errors of single fields, as values, and the paths they name.
- `patterns`: regular expressions (RE2).
- `formats`: the string formats of schemas, such as `date-time`.
- `decode`: reads objects of built-in kinds, and fills in their fixed defaults.
- `enums`: checks the enumerations and required strings of built-in kinds.
- `pruning`: removes unknown fields of custom resources, and fills in their defaults.
- `scalars`: checks of single values: type, string, number.
- `values`: checks custom resources against their schema.
- `structural`: checks the structure of the schema that a definition of a custom resource brings.
- `schema_defaults`: checks the defaults in such a schema.
- `keywords`: checks what else each part of such a schema says.
"""
