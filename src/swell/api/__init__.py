"""The objects that users write and that Swell reads: structs, schemas, validation and CRDs.

Nothing here knows a cluster, a clock or the network. In reading order:

- `meta`: metadata, keys, conditions and the server's Status.
- `codec`: JSON to structs and back.
- `resource`: names a kind, where it is served, and its struct.
- `quantity`: exact amounts such as 500m or 1.5Gi.
- `times`: timestamps as the API writes them.
- `wording`: numbers in sentences.
- `backoff`: the one exponential back-off of all packages.
- `defaults`: the sizes of a role that a manifest leaves out.
- `pod`: pods.
- `core`: nodes, services, config maps, events, leases and other small kinds.
- `workloads`: batch Jobs and ReplicaSets.
- `policy`: disruption budgets and priority classes.
- `storage`: volumes, claims and storage classes.
- `devices`: devices, their classes, and the claims that pods have on them.
- `gpu_faults`: by what nodes report broken GPUs.
- `scheduling`: Volcano's PodGroup and Queue.
- `native_groups`: the PodGroup of Kubernetes itself.
- `topology`: Volcano's HyperNode.
- `aitrainingjob`: our elastic job.
- `node_faults`: the fault marks that jobs leave on nodes, and which nodes are suspects.
- `trainingjob`: the older job of three fixed roles.
- `impossible`: sentences about jobs that can never start.
- `injection`: the variables and files that training programs are given.
- `report`: the report of a training program.
- `saving`: how a pod saves before it leaves, and what is on record about that.
- `training`: the part of a job's status that its program's reports fill in.
- `jobhistory`: the exchange format of what became of jobs.
- `kinds`: every resource with its struct.
- `requests`: what a pod asks of a node.
- `matching`: selectors, taints and tolerations.
- `schemas`: the shape and the rules of our kinds, as data.
- `crds`: CustomResourceDefinitions generated from the schemas.
- `validation`: every problem of a manifest, with a hint.
- `manifest`: reads manifest files, and knows the line of every field.
"""
