"""Everything a container is given: from a pod's manifest to the spec of a supervised run.

In reading order; `environment`, `volumes`, `addresses` and `spec` are pure:

- `provision`: makes all of it for one run, in order.
- `informers`: the API objects that containers refer to.
- `environment`: variables, the command line and the downward API.
- `users`: the user that a container runs as.
- `pod_users`: a user of its own for every pod, where pods are kept apart.
- `volumes`: the files of volumes that show API objects.
- `volume_files`: writing these files so that readers never see half an update.
- `addresses`: addresses of pods and services, and the text of hosts files.
- `hosts`: keeping hosts files up to date.
- `resources`: limits by cgroups, watched memory, and GPUs.
- `spec`: the spec that a supervisor runs.
"""
