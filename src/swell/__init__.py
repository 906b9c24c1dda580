"""Swell: elastic deep-learning jobs, on one machine and on Kubernetes.

From the lowest layer to the highest; the contracts in pyproject.toml keep imports pointing down.

- `api`: the kinds of objects, their defaults, validation, schemas and manifests.
- `runtime`: what controllers are made of: cluster port, informers, work queue, lease, metrics.
- `schema`: structural schemas and field errors.
- `cel`: the expression language of Kubernetes.
- `cluster`: two implementations of the cluster port: a Kubernetes client, an embedded API server.
- `history`: what became of jobs, kept beyond the jobs themselves.
- `train`: the library for training processes, which survives resizes of its job.
- `node`: the node agent, which runs pods as processes.
- `scheduler`: gang scheduling with queues.
- `operator`: the controllers of AITrainingJobs and TrainingJobs.
- `autoscaler`: sizes of elastic roles.
- `outlook`: why a job waits, and what would happen to one, worked out on a copy of the cluster.
- `page`: jobs, queues, nodes and the history in a browser.
- `replay`: runs traces of jobs in virtual time, to compare policies.
- `sim`: runs all of it in virtual time, with faults.
- `up`: runs all of it in one process.
- `cli`: the `swell` command.
- `sdk`: what Python programs use: the names below.
- `aio`: the same for asynchronous programs.
- `__main__`: `python -m swell`.
- `demo`: the life of an elastic job, shown by `make demo`.

Programs say `import swell`, and find `connect`, `submit`, `sweep` and `watch`. Those names are
loaded when they are first used, so that the import costs nothing; `__init__.pyi` has their types.
"""

__version__ = "0.1.0"
# The module and the name that each public name stands for; a module alone stands for itself.
_PLACES = {
    "Cluster": "swell.sdk.cluster:ClusterHandle",
    "Job": "swell.sdk.job:JobHandle",
    "JobChange": "swell.sdk.cluster:JobChange",
    "JobEvent": "swell.sdk.job:JobEvent",
    "PrintedLine": "swell.sdk.job:PrintedLine",
    "Sweep": "swell.sdk.sweep:SweepHandle",
    "SwellError": "swell.sdk.errors:SwellError",
    "SwellWarning": "swell.sdk.errors:SwellWarning",
    "aio": "swell.aio",
    "connect": "swell.sdk.cluster:connect",
    "submit": "swell.sdk.shortcuts:submit",
    "sweep": "swell.sdk.shortcuts:sweep",
    "train": "swell.train",
    "watch": "swell.sdk.shortcuts:watch",
}
__all__ = [  # noqa: F822 - loaded late
    "Cluster",
    "Job",
    "JobChange",
    "JobEvent",
    "PrintedLine",
    "Sweep",
    "SwellError",
    "SwellWarning",
    "__version__",
    "aio",
    "connect",
    "submit",
    "sweep",
    "train",
    "watch",
]


def __getattr__(name: str) -> object:
    place = _PLACES.get(name)
    if place is None:
        raise AttributeError(f"module 'swell' has no attribute {name!r}")
    from importlib import import_module

    module, _, attribute = place.partition(":")
    found = import_module(module)
    value = getattr(found, attribute) if attribute else found
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
