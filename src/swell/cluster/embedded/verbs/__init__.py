"""The verbs of the API server. All are synchronous: nothing runs between a check and its commit.

- `requests`: parameters and results of the verbs, and bodies that are no stored kind.
- `core`: the parts that all verbs share, and every commit they make.
- `reading`: get, list and the start of a watch.
- `watching`: filters, and a watch as a cursor on the log.
- `applying`: server-side apply: checks, conflicts, and the managers to store.
- `writing`: create, update, patch and apply.
- `decided`: a decision on a write on its way from one process to another.
- `deleting`: delete and deletecollection.
- `podverbs`: bindings and evictions.
- `scaling`: the scale subresource.
"""
