"""Custom resources: the definition as a kind of its own, and the kinds definitions bring.

`definition` says which definitions are accepted; `kinds` makes served kinds with their rules from
one; `registrar` keeps the registry in step with the stored definitions.
"""
