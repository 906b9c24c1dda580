"""The running scheduler: follows a cluster, runs scheduling cycles, and carries out their plans.

In reading order, which is the way the data takes:

- `settings`: how the scheduler runs, and the configuration file that is read when it changes.
- `informers`: the kinds that it watches.
- `cache`: the snapshot, fed by the informers and by what was assumed before the server confirms it.
- `training_targets`: the targets of elastic roles, those being lowered included.
- `objects`: small kinds that the snapshot mirrors, and the facts of others that decisions need.
- `feed`: hands changes to the cache, and builds the snapshot anew when a handler has failed.
- `dirty`: the marks that make the next cycle start.
- `queue_changes`: the queues that hold something else than they did at the last cycle.
- `loop`: when a cycle runs, and to which part each decision of its plan goes.
- `bind_windows`: gangs that are being bound, and the time they have to become complete.
- `nominations`: how long nominated room is kept, and how long a group may stay admitted.
- `preparation_writes`: the writes that give devices and volumes to claims, and take them back.
- `pins`: takes selected nodes back from claims that get no volume there.
- `preparation_batch`: tasks that are prepared together, and the earlier ones that they wait for.
- `preparer`: has the devices and volumes of a gang there before its pods are bound.
- `extended_claims`: makes the claims of pods for extended resources.
- `claim_fences`: makes late writes of an earlier process about resource claims fail.
- `device_releases`: frees resource claims that only waiting pods use; reports devices used twice.
- `binder`: binds pods to nodes.
- `eviction_records`: why pods are evicted, and the record of it on their group.
- `unrecorded_victims`: bindings that wait until their victims are on record.
- `saving`: how long a victim may take to save before it goes.
- `evictor`: marks pods as disrupted, then deletes them.
- `shrinker`: lowers the targets of elastic roles, so that other groups get room.
- `namespace_quotas`: explains a gang that lacks pods by the quotas of its namespace.
- `status_updater`: writes the status of groups.
- `native_status`: the status of groups of Kubernetes itself.
- `pod_conditions`: writes why a pod waits, and its nominated node.
- `queue_controller`: keeps the status of queues up to date.
- `hyper_node_controller`: keeps the status of HyperNodes up to date.
- `start_warnings`: warns of a kube-scheduler that serves the same pods, and of rules for devices.
- `controller`: the assembly of all parts, with leader election.
- `metrics`, `snapshot_metrics`: the metrics of the scheduler.
"""
