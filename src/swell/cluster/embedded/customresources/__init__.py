"""Custom resources: the definition as a kind of its own, and the kinds that definitions bring.

Files, in the order in which a definition and then its objects go through them:

- `definition`: validates and completes CustomResourceDefinitions.
- `rule_types`: the CEL type of a schema, and the conversion of JSON into values of that type.
- `rule_checks`: checks the validation rules of a new definition: types and estimated costs.
- `rules`: compiles and enforces validation rules (`x-kubernetes-validations`).
- `kinds`: turns a definition into served kinds, with schema, rules, columns and subresources.
- `registrar`: serves the stored definitions, and cleans up after deleted ones.
"""
