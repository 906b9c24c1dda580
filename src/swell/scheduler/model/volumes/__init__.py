"""Volumes: which nodes can have the claims of a pod, and which volumes a placed pod reserves.

In reading order:

- `claims`: the claims of a pod, and what state a claim is in.
- `objects`: the claims, volumes, classes and drivers of a cluster, with indexes.
- `node_masks`: which nodes match labels, for all nodes at once.
- `matching`: the choice of volumes for the claims of one pod on one node.
- `reservations`: the choices of pods that are placed and not bound yet, and who uses a claim.
- `attachments`: how many volumes are attached to a node, and how many it takes.
- `refusals`: the sentences that say why a node refuses a pod.
- `rules`: for a task, the nodes that refuse it because of its volumes, with the reasons.
- `preparation`: what has to be written for the volumes of a gang before it is bound, and when.
"""
