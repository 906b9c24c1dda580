"""Decides how large elastic jobs should be, and writes the sizes as targets on their status.

In reading order, which is the way the data takes:

- `settings`: how often the autoscaler decides, by which policy, with which parameters.
- `informers`: the kinds that it watches.
- `goodput`: how fast jobs are by size, and what sizes are worth: arithmetic only.
- `needs`: the amounts one replica asks of a node, and the nodes that it accepts.
- `views`: pods, nodes and jobs reduced to what sizing needs.
- `job_views`: how AITrainingJobs and TrainingJobs are read into one form.
- `job_state`: where each replica of a job counts, and which pending jobs can never start.
- `mirror`: the cluster as the scheduler sees it, for trials by the scheduler's own rules.
- `trial`: one trial, in which pods are imagined and moved, and which leaves no trace.
- `cluster_resource`: the cluster's totals, requests and idle amounts at one moment.
- `ledger`: the sums behind them, kept up to date one change at a time.
- `policies`: pure functions from jobs and cluster to a target for every role.
- `estimates`: when waiting jobs will start.
- `damping`: resizes that a policy wants but that have to wait, and raises that are taken back.
- `plan`: one decision over given objects, for `swell plan autoscale`.
- `pacing`: when it looks: every period, and earlier when there is a reason to.
- `status`: a decided size as a status patch and an event.
- `controller`: the running autoscaler, which decides periodically and has the sizes written.
- `metrics`: the metrics of its decisions.
"""
