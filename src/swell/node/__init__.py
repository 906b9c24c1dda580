"""The node agent: registers nodes, and runs the pods that are bound to them.

In reading order, first the way of a pod, then that of a node:

- `program`: `swell node` as a program: connects, runs an agent, and cleans up.
- `assembly`: an agent, put together from its parts.
- `agent`: the loop over pods: decide, act, report the status, delete.
- `pods`: pods as the agent reads them.
- `runs`: the states of a container's run.
- `decide`: actions and status for one pod, now. Pure.
- `restarts`: which containers to start, restart and stop, and when. Pure.
- `status`: the pod status that a kubelet would report. Pure.
- `hollow`: a runtime that simulates containers by the clock.
- `process`: the runtime whose containers are processes of this machine.
- `supervisor`: the parent of each such process.
- `machine`: processors, memory and GPUs of this machine.
- `nodes`: Node objects, and the decisions about them. Pure.
- `registration`: the loop that keeps the Node objects.
- `heartbeat`: the renewal of the nodes' Leases.
"""
