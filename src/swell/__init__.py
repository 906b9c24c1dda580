"""Swell: elastic deep-learning jobs, on one machine and on Kubernetes.

From the lowest layer to the highest; the contracts in pyproject.toml keep imports pointing down.

- `api`: the kinds of objects, their defaults, validation, schemas and manifests.
- `runtime`: what controllers are made of: cluster port, informers, work queue, lease, metrics.
- `schema`: structural schemas and field errors.
- `cel`: the expression language of Kubernetes.
- `cluster`: two implementations of the cluster port: a Kubernetes client, an embedded API server.
- `train`: the library for training processes, which survives resizes of its job.
- `node`: the node agent, which runs pods as processes.
- `scheduler`: gang scheduling with queues.
- `operator`: the controllers of AITrainingJobs and TrainingJobs.
- `autoscaler`: sizes of elastic roles.
- `replay`: runs traces of jobs in virtual time, to compare policies.
- `sim`: runs all of it in virtual time, with faults.
- `up`: runs all of it in one process.
- `cli`: the `swell` command.
- `__main__`: `python -m swell`.
- `demo`: the life of an elastic job, shown by `make demo`.
"""

__version__ = "0.1.0"
