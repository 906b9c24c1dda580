"""The process runtime: containers as process groups of this machine.

In reading order:

- `runtime`: the agent's `Runtime` port: starts, stops and recovers the containers of pods.
- `folders`: the layout on disk.
- `keptlogs`: logs of jobs that are gone, kept for a while.
- `setup`: everything a container is given before it starts.
- `container`: pods and containers as the runtime holds them, and commands inside one.
- `exec_sessions`: a command of a user's in a container, with its input, output or terminal.
- `isolation`: whether pods can be kept out of the state folder.
- `launcher`: the warm process that forks supervisors, and the test for private mounts.
- `supervised`: one run, its supervisor and the reports of that.
- `orphans`: processes of runs whose supervisor is gone.
- `upkeep`: keeps hosts files, volumes and logs of running pods in step with the cluster.
- `reports`: hands on the reports that programs write into files.
- `probes`: startup, readiness and liveness.
- `logfiles`: the files of a log, and termination messages.
- `logreading`: a part of a log, in pieces.
- `logserver`: serving logs to API servers, as a kubelet does.
"""
