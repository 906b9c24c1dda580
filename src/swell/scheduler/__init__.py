"""The gang scheduler: decides which pods go to which nodes, and which have to leave.

Everything but `live` is synchronous and pure: objects in, plan out. In reading order:

- `cycle`: one scheduling cycle in numbered steps; read it first.
- `config`, `config_file`: the configuration: actions, and plugins in tiers; read from a file.
- `model`: the snapshot of the cluster that a cycle works on.
- `session`: the state of a cycle, and the transactions that change it.
- `hooks`: the functions that plugins may have, and how their answers combine.
- `actions`: the steps of a session: enqueue, allocate, backfill, preempt, reclaim.
- `job_order`: which queue is served next, and which of its jobs.
- `gang_fit`: whether a gang fits.
- `topology_labels`: the node labels that describe the network, as configured.
- `domains`: which parts of the network a gang may use.
- `domain_fit`: whether a gang fits into one of them.
- `domain_reasons`: why it does not.
- `domain_claims`: which of them is cleared for a gang by preempt and reclaim.
- `node_scores`: what all nodes are worth to a shape, kept up to date.
- `placement`: which node is best for a task.
- `gathering`: the same for tasks that gather in parts of the network.
- `scores_ahead`: what nodes score now and after a few such tasks.
- `eviction_units`: which pods leave together.
- `victim_prices`: what victims lose, and which are cheaper.
- `victims`: which pods are evicted to make room.
- `plugins`: the rules: order, fair shares, quotas, predicates, scores.
- `status`: the phase of each group, and why it waits.
- `plan`: a cycle over objects from files, for `swell plan schedule`.
- `explain`: why a group waits and what would help, for `swell explain`.
- `live`: the running scheduler: keeps the snapshot up to date and carries out plans.
"""
