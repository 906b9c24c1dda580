"""The embedded cluster: an API server with its store, its kinds, HTTPS, and built-in controllers.

A request comes in by `http` or `client`, becomes a verb of `apiserver`, is checked by the rules of
its kind, and ends as a commit in `storage`, whose log feeds the watches.

- `assembly`: the whole server, put together.
- `http`: HTTPS, as kubectl and client libraries speak it.
- `client`: the same server for a client in the same process.
- `apiserver`: every verb on every kind, as one object.
- `verbs`: the verbs themselves.
- `slices`: long work on the event loop, done in slices.
- `refusals`: every refusal: code, reason, message and causes.
- `access`: who may do what: roles, bindings, reviews.
- `ownership`: server-side apply, and which client owns which field.
- `patching`: the three kinds of patches.
- `selectors`: label and field selectors.
- `objectmeta`: the rules of metadata, the same for every kind.
- `registry`: the served kinds, and the contract of their rules.
- `builtin`: the built-in kinds and their rules.
- `customresources`: the kinds that definitions bring.
- `commits`: the values in the store.
- `storage`: the versioned map and its log, in memory.
- `durable`: the same on disk.
- `reserve`: room on the disk for deletions when it is full.
- `database`: the SQLite file, its format and the upgrade of older ones.
- `rows`: the rows of that file, and what can be wrong with one.
- `checking`: tells what is wrong with a whole file, and saves the rest.
- `copies`: backups, and putting them back.
- `controllers`: the controllers that every cluster runs.
"""
