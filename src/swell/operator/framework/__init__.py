"""The operator framework. It runs any job kind that is described by a `JobKindDefinition` value.

One job's way through it: an informer sees a change, the work queue hands out the job's key, a
snapshot is taken of all caches, the kind's pure `decide` returns a plan, the executor carries it
out. In reading order:

- `settings`: the choices all kinds share.
- `kind`: the description of a job kind, and the dependencies its parts are made from.
- `controller`: the assembly of one kind's informers, controller, node watch and collector.
- `gpu_states`: what is known of GPUs, as decisions see it.
- `fault_guard`: whether too many nodes report broken GPUs at once.
- `gpuwatch`: since when nodes report broken GPUs.
- `gpu_drops`: nodes that can allocate fewer GPUs than their pods have.
- `devicewatch`: which devices pods have by claims, and since when each is tainted.
- `gpu_health`: all three for one operator, with their events.
- `nodewatch`: which nodes are certainly unready or gone.
- `mass_failure`: whether so many nodes are silent that restarts are held back.
- `fault_marks`: the plan for the marks and the taint of one node on which jobs failed.
- `fault_keeper`: keeps those marks on nodes, beside the decisions.
- `fencing`: when a pod's processes have certainly ended although nothing reports it.
- `status`: writes on the job object: phase transitions, status patches, finalizers, events.
- `waiting`: why a job waits and by whom it lost pods, in the scheduler's words.
- `dependencies`: the jobs that must have succeeded before another one.
- `after`: finds those among the jobs of a kind.
- `children`: content that child objects of all kinds have in common.
- `native_groups`: PodGroups of Kubernetes itself, where jobs have such.
- `training`: the parts that a training program gets if its job asks for them.
- `reports`: reports of training programs, read with their bounds, and turned into a status.
- `report_client`, `report_puller`: ask the programs for them, beside the decisions.
- `report_inbox`: takes reports that pods send, where they cannot be asked.
- `recovery`: what a lost or damaged status is rebuilt from.
- `metrics`: jobs by phase, and what is counted and logged of the events.
- `managers`: jobs that are left to another controller.
- `malformed`: the plan for a job that cannot be decoded.
- `orphans`: what deleted jobs left behind, and the collector that deletes it.
- `program`: an operator as a process runs it: CRDs, leader election, readiness.

`gpu_states`, `fencing`, `status`, `waiting`, `dependencies`, `children`, `native_groups`,
`training`, `reports`, `recovery`, `malformed` and `fault_marks` are pure: decisions use them.
"""
