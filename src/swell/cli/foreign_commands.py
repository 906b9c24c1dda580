"""This file says what commands of kubectl, Slurm, torchrun and others are called here.

It is read when a command line is refused, so that its error names the way there instead of the
nearest spelling.
"""

from __future__ import annotations

_RUN = "swell run -- COMMAND, in the background with --detach, many of them with swell sweep"
_JOBS = "swell get; why a job waits: swell explain JOB; your queue: swell queue list"
_STOP = "swell stop JOB, or swell delete JOB to take its record away, too"
_NODES = "swell get nodes; their load: swell top nodes"
_HISTORY = "swell history, or for one job: swell report JOB"
_LAUNCH = (
    "swell launch SCRIPT in place of torchrun; as a job: swell run --nproc-per-node N -- COMMAND"
)
_CLUSTER = "swell cluster tells which one is asked, swell use CONTEXT chooses one"
_APPLY = "swell apply -f FILE"
_UP = "swell up runs a cluster on this machine; on Kubernetes: swell crds | kubectl apply -f -"
_USERS = "users of the embedded cluster: swell user --help; elsewhere: kubectl"
_LIMITS = "amounts are limited by queues: swell queue create NAME --capability cpu=8"

# What a command of another program is called here: a sentence that follows "error: ...".
COMMAND_HINTS: dict[str, str] = {
    # kubectl
    "alpha": "see: swell --help",
    "api-versions": "swell api-resources has the versions of all kinds",
    "autoscale": "the bounds are the job's own: minReplicas, maxReplicas and edlPolicy: Auto",
    "certificate": "kubectl does that; users of the embedded cluster: swell user --help",
    "cluster-info": _CLUSTER,
    "config": _CLUSTER,
    "debug": "swell exec POD -- COMMAND runs beside the pod's own process",
    "expose": "jobs have their services; to reach a pod: swell port-forward POD PORT",
    "kubectl": "leave that word out, as in: swell get pods",
    "kustomize": "kubectl kustomize FOLDER | swell apply -f -",
    "options": "every command has its flags in swell COMMAND --help",
    "plugin": "this is a plugin itself: kubectl swell is the same as swell",
    "proxy": "swell get --raw PATH asks the server; the page: swell dashboard",
    "rollout": "a job changes by swell edit or swell apply, runs anew by swell retry or swell"
    " replace; to wait for it: swell wait JOB --for=condition=Running",
    "set": "swell edit JOB, or swell patch JOB -p CHANGE",
    # Slurm
    "sacct": _HISTORY,
    "sacctmgr": "queues: swell queue --help; users of the embedded cluster: swell user --help",
    "salloc": _RUN,
    "sattach": "swell attach JOB",
    "sbatch": _RUN,
    "sbcast": "swell cp FILE POD:PATH",
    "scancel": _STOP,
    "scontrol": "swell describe JOB, suspend JOB, resume JOB, cordon NODE, or swell queue --help",
    "sdiag": "swell top; of the scheduler: its metrics",
    "sinfo": _NODES,
    "sprio": "swell explain JOB; positions of all: swell get -o wide",
    "squeue": _JOBS,
    "sreport": _HISTORY,
    "srun": _RUN,
    "sshare": "swell queue list",
    "sstat": "swell top",
    # Other queueing systems
    "bjobs": _JOBS,
    "bkill": _STOP,
    "bsub": _RUN,
    "qdel": _STOP,
    "qstat": _JOBS,
    "qsub": _RUN,
    # Launchers
    "accelerate": _LAUNCH,
    "deepspeed": _LAUNCH,
    "horovodrun": _LAUNCH,
    "mpirun": _LAUNCH,
    "torchrun": _LAUNCH,
    # What anybody may try
    "cancel": _STOP,
    "connect": _CLUSTER,
    "context": _CLUSTER,
    "destroy": "swell down stops the embedded cluster; swell uninstall is for others",
    "info": _CLUSTER,
    "init": _UP,
    "install": _UP,
    "job": _JOBS,
    "jobs": _JOBS,
    "kill": _STOP,
    "list": _JOBS,
    "login": "swell dashboard for the page; a token for a user: swell user --help",
    "ls": _JOBS,
    "nodes": _NODES,
    "ps": "swell get pods",
    "pause": "swell suspend JOB",
    "remove": "swell delete JOB",
    "restart": "swell retry JOB runs an ended job again, swell replace -f FILE any",
    "rm": "swell delete JOB",
    "show": "swell get, or swell describe JOB",
    "ssh": "swell exec -it POD -- sh",
    "start": "swell up for a cluster, swell run for a job",
    "status": "swell get, or for one job: swell describe JOB",
    "submit": "swell run -- COMMAND, or swell apply -f FILE",
    "ui": "swell dashboard",
    "web": "swell dashboard",
}
# The same for commands of groups, where nothing is near.
GROUP_HINTS: dict[str, str] = {
    "create": f"other kinds are written as manifests: {_APPLY}",
    "auth": "swell auth can-i VERB KIND, swell auth whoami",
    "queue": "a queue changes by swell edit queue NAME, or swell patch queue NAME -p CHANGE",
}
# The flags of other programs, by the command that they are given to.
_RUN_FLAGS: dict[str, str] = {
    **dict.fromkeys(
        ("--array", "-a"), "many jobs of one command: swell sweep --array 0-9 -- COMMAND"
    ),
    **dict.fromkeys(("--chdir", "-D"), "--workdir FOLDER"),
    **dict.fromkeys(("--cpus", "--cpus-per-task"), "--cpu N, of each pod"),
    **dict.fromkeys(("--dependency", "-d"), "--after JOB"),
    "--dry-run": "--print shows the manifest and submits nothing",
    **dict.fromkeys(("-e", "--export"), "--env NAME=VALUE"),
    **dict.fromkeys(
        ("--gpus", "--gpus-per-node", "--gpus-per-task", "--gres"), "--gpu N, of each pod"
    ),
    **dict.fromkeys(("--job-name", "-J"), "--name NAME"),
    **dict.fromkeys(("--mem", "--mem-per-cpu"), "--memory 4Gi, of each pod"),
    **dict.fromkeys(
        ("--nnodes", "--nodes", "-N", "--ntasks", "--num-nodes", "--parallelism", "--replicas"),
        "--min N, and --max N for a job that may grow; processes in each: --nproc-per-node N",
    ),
    **dict.fromkeys(("--ntasks-per-node", "--nproc_per_node"), "--nproc-per-node N"),
    **dict.fromkeys(("-o", "--output"), "--print shows the manifest; the output: swell logs JOB"),
    **dict.fromkeys(("--partition", "--account", "-A"), "--queue NAME"),
    "--qos": "--priority CLASS",
    "--requeue": "--restart N",
    **dict.fromkeys(
        ("--rm", "-it", "-i", "--stdin"), "jobs have no input; in a pod: swell exec -it POD -- sh"
    ),
    **dict.fromkeys(("--time", "-t"), "--time-limit 2h"),
}
FLAG_HINTS: dict[str, dict[str, str]] = {
    "run": _RUN_FLAGS,
    "sweep": {**_RUN_FLAGS, "--array": "", "-a": "--array 0-9"},
    "apply": {
        **dict.fromkeys(("-k", "--kustomize"), "kubectl kustomize FOLDER | swell apply -f -"),
        "--prune": "kubectl does that; swell delete -f FILE deletes what a manifest names",
        "--validate": "manifests are always checked; unknown kinds: --ignore-unknown",
    },
    "get": {
        "--chunk-size": "lists are read as a whole",
        "--output-watch-events": "-w -o json prints the objects",
        "--timeout": "a watch ends by Ctrl-C; to wait for something: swell wait --timeout",
    },
    "logs": {
        "--all-pods": "the logs of a job are those of all its pods",
        "--max-log-requests": "there is no such limit",
        "--ignore-errors": "a pod whose log cannot be read does not end those of others",
    },
    "replace": {"--force": "objects are always deleted and made anew"},
    "top": {
        **dict.fromkeys(("-w", "--watch"), "on a terminal it is drawn anew by itself"),
        "--containers": "requests are those of whole pods",
    },
}
_CREATE_HINTS = {
    "job": "swell run -- COMMAND, or as a manifest: swell apply -f FILE",
    "cronjob": "cron can call swell run --detach -- COMMAND",
    "role": _USERS,
    "rolebinding": _USERS,
    "clusterrole": _USERS,
    "clusterrolebinding": _USERS,
    "serviceaccount": _USERS,
    "sa": _USERS,
    "token": _USERS,
    "quota": _LIMITS,
    "resourcequota": _LIMITS,
    "user": "swell user --help",
}


def hint_for_command(name: str) -> str:
    """Return what a command of another program is called here; empty if that is not known."""
    return COMMAND_HINTS.get(name.lower(), "")


def hint_for_flag(command: str, flag: str) -> str:
    """Return what a flag of another program is called here; empty if that is not known."""
    known = FLAG_HINTS.get(command, {}).get(flag, "")
    return f"here it is: {known}" if known.startswith("-") else known


def hint_for_group(group: str, name: str) -> str:
    """Return the same for a command of one of our groups, such as `create`."""
    if group == "create" and name in _CREATE_HINTS:
        return _CREATE_HINTS[name]
    return GROUP_HINTS.get(group, "")
