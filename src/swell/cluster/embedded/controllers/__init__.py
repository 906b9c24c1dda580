"""The controllers that a Kubernetes control plane brings along, for the embedded cluster.

Decisions are pure functions of a snapshot and the time, and return a plan. The garbage collector is
the exception: it works on the store directly.

Files, from reading to deciding to writing:

- `assembly`: puts all controllers together and adds them to a manager.
- `snapshots`: reads caches and the store into the snapshots that decisions are made on.
- `pods`: properties of a pod that controllers read.
- `claiming`: which pods an owner with a selector adopts and releases.
- `ranking`: the order in which surplus pods are deleted.
- `replicaset`: decides about ReplicaSets.
- `job`: decides about Jobs.
- `podgroup`: decides when a deleted PodGroup may go.
- `namespace`: decides how a deleted namespace is emptied.
- `nodelifecycle`: decides about nodes whose Lease is no longer renewed.
- `volumes`: decides about volume claims and volumes, and provisions folders.
- `volumefolders`: reads claims and volumes, and removes the folders of volumes that are gone.
- `writes`: the writes that controllers share: pods from templates, slow start, status patches.
- `garbage`: the garbage collector of owners and dependents.
"""
