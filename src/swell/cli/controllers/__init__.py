"""Commands that run controllers until they are told to stop.

- `options`: groups of options that controllers share: API server, lease, endpoints, logs.
- `autoscaler_options`: the autoscaler's group.
- `gpu_options`: the flags about broken GPUs.
- `feature_gates`: the operator's features, their stages, and the switches for them.
- `component_config`: the operator's configuration file.
- `operator`: `swell operator`, the job controllers and the autoscaler.
- `scheduler`: `swell scheduler`.
- `standalone`: `swell server` and `swell node`; groups that `swell up` takes as well.
- `process`: the process a controller runs in: log, endpoints, connection, lease, signals.
"""
