"""The AITrainingJob kind. The operator creates the pods of its roles itself.

In reading order:

- `settings`, `labels`: the operator's choices, and the names of a job's objects.
- `kind`: the kind as the framework runs it: informers, snapshots, rules.
- `snapshot`: the input of a decision, and which pods a restart or resize has given up.
- `decide`: the plan for one job at one moment. It calls all of the following.
- `recovery`: the parts of a lost or damaged status, from the job's objects.
- `sizes`: the target size of each role.
- `holders`: whether a shrink waits for one who stays to hold the state.
- `gpu_causes`: which broken GPU a pod cannot go on with.
- `causes`: why a pod cannot go on as it is.
- `restarts`: restart scope, budget and back-off.
- `exclusions`: pods that wait for nodes which they need not exclude any more.
- `node_faults`: failures that are blamed on a node, and nodes that new pods avoid for them.
- `stragglers`: pods that are much slower than their peers.
- `endings`: whether the job ends, how, and why.
- `preemptions`: how often the scheduler preempted the job, and when that ends it.
- `suspension`: how a job gives back its pods, and gets new ones.
- `phases`: the phase machine, and the reasons that go with phases.
- `losses`: which pods the job lost to others, and by whom.
- `pace`: how long the mere numbers of a status wait to be written.
- `status`: the new status, its write, and its events.
- `instances`: the numbers that tell a pod from its predecessors.
- `membership`: the members ConfigMap and its epoch.
- `children`: the steps to the pods, services and group there should be.
- `departures`: how pods leave that could stay: they may save first.
- `native_gang`: the group as one of Kubernetes itself, on request.
- `kueue_pods`: when the pods that Kueue admits as a group are let go.
- `topology`: where the pods may be, as the group has it.
- `pods`: pods and services from a role's template.
- `environment`: how a pod's variables are made.
- `cleanup`: what is deleted at an ending and with the job.
- `metrics`: jobs by phase, restarts, resizes.
"""
