"""The cluster as decisions see it: tasks, jobs, nodes and queues, with every sum over them.

- `resources`: amounts as vectors, and the comparisons of quotas and nodes.
- `tasks`: pods, their statuses, and shapes (classes of equal pods).
- `elastic`: roles of training jobs, which can be shrunk.
- `unsaved`: the work that pods lose when they are evicted.
- `task_counts`: how many tasks are in each status.
- `podset_annotations`: how close a pod's annotations want it to others.
- `sub_groups`: parts of a gang with a minimum of their own.
- `native_groups`: PodGroups of Kubernetes itself, in the same terms as Volcano's.
- `jobs`: PodGroups with their tasks.
- `annotated_gangs`: the sub-groups that annotations of pods ask for.
- `membership`: which group each pod belongs to.
- `priorities`: priority classes.
- `ungrouped`: a virtual group for each pod that names none.
- `queue_rules`: the state of a queue, and which queues may exist beside each other.
- `queues`: queues with what their jobs hold, and their tree.
- `nodes`: all nodes as matrices, with what is idle now and later.
- `empty_nodes`: whether a gang could ever start, if the nodes were empty.
- `domain_tree`: parts of the network as a tree above the nodes.
- `hyper_nodes`: the objects that describe the tree.
- `label_topology`: the tree by node labels instead.
- `label_domains`: domains by the value of one node label.
- `affinity`: which pods are where by label, for pod affinity and topology spread.
- `devices`: which nodes can have the resource claims of a pod, and the devices that it gets.
- `claim_tables`: both of these side by side.
- `volumes`: which nodes can have the claims of a pod, and the volumes that placed pods reserve.
- `snapshot`: all of the above, kept in step by one function that moves tasks.
- `reasons`: why a group or pod waits, as values.
"""
