"""Devices: which nodes can have the resource claims of a pod, and which devices a placed pod gets.

In reading order:

- `claims`: the resource claims of a pod, and what is known of each.
- `selectors`: the expressions that select devices, evaluated once for each content of a device.
- `offers`: what a slice offers, read strictly.
- `wanted`: what a claim asks for, read strictly.
- `pools`: the pools of devices, and the view that nodes have of them.
- `usage`: which claim has which device, as it is written and as it was chosen since.
- `objects`: the slices, classes and claims of a cluster.
- `extended`: resources that devices stand for, and the claims for them.
- `room`: how much of these resources nodes have.
- `search`: the devices for the claims of one pod on one node.
- `answers`: the same for all nodes, kept up to date.
- `results`: the allocation of a claim as it is written.
- `choices`: the devices that placed pods are to get until that is written.
- `preparation`: what has to be written for the claims of a gang before it is bound, and back.
- `refusals`: the sentences that say why a node refuses a pod.
- `resolving`: the claims of a task, those that have devices and those that are to get some.
- `rules`: for a task, the nodes that refuse it because of its claims, with the reasons.

What the live scheduler calls. `snapshot.devices` is a `DeviceTable`; clearing the snapshot makes a
new one, so it must be looked up at every call.

- `put_slice`, `put_class`, `put_claim` and `remove_slice(name)`, `remove_class(name)`,
  `remove_claim("ns/name")` follow the API server. `objects.are_served` is to be False where
  `resource.k8s.io/v1` is not served; `objects.are_known` is False only in plans.
- A pod must be put in anew when `status.resourceClaimStatuses` changes: it says which claim its
  template has made.
- `plan.devices[task]` is the `DeviceChoice` of a task that is to be bound. `allocations` maps a
  claim to what is to be written as `status.allocation`, without the timestamp; tasks that share a
  claim carry the same value. `reserved` are claims that were allocated already, to which the pod is
  only to be added. Every task of the batch has to be in `reservedFor` of all `choice.claims`.
- While a task is binding, its choice is `choices.by_task[task.key]`, and its devices are in use for
  everybody else. They stay so after the pod is bound, until its claim is seen allocated or gone:
  that is a promise. `choices.release_promise("ns/name")` ends one where a consistent read has shown
  that an allocation was never written. A choice with a `problem` must be placed anew.
- `choices.is_chosen("ns/name")`: whether a placed task, or a promise, counts on what was chosen.
- `plan.deallocations` are allocated claims that only waiting pods of one job may use, and that keep
  them from every node. They are to be deallocated; the next cycle chooses anew.
- `objects.doubly_used()` are the devices that several claims have, with these claims.
"""
