"""Manifests with mistakes, and what is said about each: the line, the field, words and hint.

A case replaces a text of `GOOD` by another one. The mistakes are those that people make: a letter
too few, a number without quotes, a field at the wrong level, a name that refers to nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

GOOD = """\
apiVersion: elasticdeeplearning.ai/v1
kind: AITrainingJob
metadata: {name: fit, labels: {team: vision}}
spec:
  queue: default
  replicaSpecs:
    trainer:
      replicas: 2
      template:
        metadata: {labels: {app: fit}}
        spec:
          volumes: [{name: data, emptyDir: {}}]
          containers:
          - name: aitj-trainer
            image: python:3.12
            env: [{name: LR, value: "0.1"}]
            resources: {requests: {cpu: 1}, limits: {memory: 1Gi}}
            volumeMounts: [{name: data, mountPath: /data}]
            ports: [{name: aitj-2222, containerPort: 2222}]
"""
POD = "spec.replicaSpecs.trainer.template.spec"
CONTAINER = f"{POD}.containers[0]"
VOLUMES = "volumes: [{name: data, emptyDir: {}}]"
MOUNTS = "volumeMounts: [{name: data, mountPath: /data}]"
PORTS = "ports: [{name: aitj-2222, containerPort: 2222}]"
RESOURCES = "resources: {requests: {cpu: 1}, limits: {memory: 1Gi}}"
ENV = 'env: [{name: LR, value: "0.1"}]'


@dataclass(frozen=True)
class Wrong:
    """A mistake: `old` of the good manifest becomes `new`, and each of `said` is reported.

    These are triples: the line, the path of the field, and a part of message and hint.
    """

    old: str
    new: str
    said: tuple[tuple[int, str, str], ...]

    @property
    def text(self) -> str:
        assert self.old in GOOD
        return GOOD.replace(self.old, self.new)


def wrong(old: str, new: str, *said: tuple[int, str, str]) -> Wrong:
    return Wrong(old, new, said)


WRONG: dict[str, Wrong] = {
    # The job itself.
    "job-kind": wrong("AITrainingJob", "AITrainingJbo", (2, "kind", "did you mean AITrainingJob?")),
    "job-version": wrong("ai/v1", "ai/v1beta1", (1, "apiVersion", "is not served as")),
    "job-no-kind": wrong("kind: AITrainingJob\n", "", (1, "kind", "is required")),
    "job-no-name": wrong("name: fit, l", "l", (3, "metadata.name", "is required")),
    "job-name": wrong("{name: fit,", "{name: Fit_1,", (3, "metadata.name", "must be lower-case")),
    "job-field": wrong("queue: default", "que: default", (5, "spec.que", "did you mean queue?")),
    "job-enum": wrong(
        "queue: default", "cleanPodPolicy: Al", (5, "spec.cleanPodPolicy", "did you mean All?")
    ),
    "job-label": wrong(
        "team: vision", "team: a b", (3, "metadata.labels", "a valid label must be")
    ),
    "job-metadata": wrong(
        "labels: {team", "lables: {team", (3, "metadata.lables", "did you mean labels?")
    ),
    "job-misplaced": wrong(
        "queue: default", "minReplicas: 1", (5, "spec.minReplicas", "it belongs to")
    ),
    # A role.
    "role-field": wrong(
        "replicas: 2", "replica: 2", (8, "spec.replicaSpecs.trainer.replica", "replicas?")
    ),
    "role-negative": wrong(
        "replicas: 2", "replicas: -2", (8, "spec.replicaSpecs.trainer.replicas", "at least 1")
    ),
    "role-text": wrong(
        "replicas: 2", "replicas: two", (8, "spec.replicaSpecs.trainer.replicas", "whole number")
    ),
    "role-bounds": wrong(
        "replicas: 2",
        "minReplicas: 3\n      maxReplicas: 2",
        (8, "spec.replicaSpecs.trainer.minReplicas", "must not be greater than maxReplicas"),
    ),
    "role-without-pods": wrong(
        "      template:\n",
        "      tmplate:\n",
        (7, "spec.replicaSpecs.trainer.template", "is required"),
        (9, "spec.replicaSpecs.trainer.tmplate", "did you mean template?"),
    ),
    # The pod.
    "pod-field": wrong(
        VOLUMES, "volums: []\n          " + VOLUMES, (12, f"{POD}.volums", "volumes?")
    ),
    "pod-container-field": wrong(
        VOLUMES,
        "command: [ls]\n          " + VOLUMES,
        (12, f"{POD}.command", "it belongs to spec.containers[]"),
    ),
    "pod-restart-policy": wrong(
        VOLUMES,
        "restartPolicy: never\n          " + VOLUMES,
        (12, f"{POD}.restartPolicy", "did you mean Never?"),
    ),
    "pod-grace": wrong(
        VOLUMES,
        "terminationGracePeriodSeconds: 30s\n          " + VOLUMES,
        (12, f"{POD}.terminationGracePeriodSeconds", "must be a whole number"),
    ),
    "pod-node-selector": wrong(
        VOLUMES,
        "nodeSelector: {gpu: true}\n          " + VOLUMES,
        (12, f"{POD}.nodeSelector.gpu", "must be a text, is true"),
    ),
    "pod-toleration": wrong(
        VOLUMES,
        "tolerations: [{key: gpu, operator: Exist}]\n          " + VOLUMES,
        (12, f"{POD}.tolerations[0].operator", "did you mean Exists?"),
    ),
    "pod-toleration-effect": wrong(
        VOLUMES,
        "tolerations: [{key: gpu, operator: Exists, efect: NoSchedule}]\n          " + VOLUMES,
        (12, f"{POD}.tolerations[0].efect", "did you mean effect?"),
    ),
    "pod-affinity": wrong(
        VOLUMES,
        "affinity: {nodeAfinity: {}}\n          " + VOLUMES,
        (12, f"{POD}.affinity.nodeAfinity", "did you mean nodeAffinity?"),
    ),
    "pod-affinity-operator": wrong(
        VOLUMES,
        "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution:"
        " {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Is, values: [b]}]}]}}}\n"
        "          " + VOLUMES,
        (
            12,
            f"{POD}.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
            ".nodeSelectorTerms[0].matchExpressions[0].operator",
            "unsupported value",
        ),
    ),
    "pod-host-network": wrong(
        VOLUMES,
        'hostNetwork: "yes"\n          ' + VOLUMES,
        (12, f"{POD}.hostNetwork", "must be true or false"),
    ),
    "pod-security": wrong(
        VOLUMES,
        "securityContext: {runAsUser: root}\n          " + VOLUMES,
        (12, f"{POD}.securityContext.runAsUser", "must be a whole number"),
    ),
    "pod-security-field": wrong(
        VOLUMES,
        "securityContext: {runAsRoot: true}\n          " + VOLUMES,
        (12, f"{POD}.securityContext.runAsRoot", "unknown field"),
    ),
    "pod-spread": wrong(
        VOLUMES,
        "topologySpreadConstraints: [{maxSkew: 1}]\n          " + VOLUMES,
        (12, f"{POD}.topologySpreadConstraints[0].topologyKey", "is required"),
        (12, f"{POD}.topologySpreadConstraints[0].whenUnsatisfiable", "is required"),
    ),
    "pod-host-alias": wrong(
        VOLUMES,
        "hostAliases: [{ip: here, hostnames: [a]}]\n          " + VOLUMES,
        (12, f"{POD}.hostAliases[0].ip", "must be a valid IP address"),
    ),
    "pod-secret": wrong(
        VOLUMES,
        "imagePullSecrets: [registry]\n          " + VOLUMES,
        (12, f"{POD}.imagePullSecrets[0]", "must be an object"),
    ),
    "pod-labels": wrong(
        "labels: {app: fit}",
        "labels: {app: 1}",
        (10, "spec.replicaSpecs.trainer.template.metadata.labels.app", "must be a text, is 1"),
    ),
    "pod-label-key": wrong(
        "labels: {app: fit}",
        'labels: {"a b": fit}',
        (10, "spec.replicaSpecs.trainer.template.metadata.labels", "name part must consist of"),
    ),
    "pod-metadata": wrong(
        "metadata: {labels: {app: fit}}",
        "metadata: {label: {app: fit}}",
        (10, "spec.replicaSpecs.trainer.template.metadata.label", "did you mean labels?"),
    ),
    # Volumes.
    "volume-field": wrong(
        VOLUMES,
        "volumes: [{name: data, emptydir: {}}]",
        (12, f"{POD}.volumes[0].emptydir", "did you mean emptyDir?"),
    ),
    "volume-two": wrong(
        VOLUMES,
        "volumes: [{name: data, emptyDir: {}, hostPath: {path: /a}}]",
        (12, f"{POD}.volumes[0].hostPath", "may not specify more than 1 volume type"),
    ),
    "volume-twice": wrong(
        VOLUMES,
        "volumes: [{name: data, emptyDir: {}}, {name: data, emptyDir: {}}]",
        (12, f"{POD}.volumes[1].name", 'Duplicate value: "data"'),
    ),
    "volume-name": wrong(
        VOLUMES,
        "volumes: [{name: data, emptyDir: {}}, {name: My_Data, emptyDir: {}}]",
        (12, f"{POD}.volumes[1].name", "a lowercase RFC 1123 label"),
    ),
    "volume-host-path": wrong(
        VOLUMES,
        "volumes: [{name: data, hostPath: /scratch}]",
        (12, f"{POD}.volumes[0].hostPath", "must be an object"),
    ),
    "volume-config-map": wrong(
        VOLUMES,
        "volumes: [{name: data, configMap: {nme: x}}]",
        (12, f"{POD}.volumes[0].configMap.name", "Required value"),
        (12, f"{POD}.volumes[0].configMap.nme", "did you mean name?"),
    ),
    "volume-size": wrong(
        VOLUMES,
        "volumes: [{name: data, emptyDir: {sizeLimit: 1GB}}]",
        (12, f"{POD}.volumes[0].emptyDir.sizeLimit", "is no amount"),
    ),
    "mount-unknown": wrong(
        MOUNTS,
        "volumeMounts: [{name: dta, mountPath: /data}]",
        (18, f"{CONTAINER}.volumeMounts[0].name", "did you mean data?"),
    ),
    "mount-no-path": wrong(
        MOUNTS,
        "volumeMounts: [{name: data}]",
        (18, f"{CONTAINER}.volumeMounts[0].mountPath", "is required"),
    ),
    "mount-field": wrong(
        MOUNTS,
        "volumeMounts: [{name: data, mountPath: /data, readonly: true}]",
        (18, f"{CONTAINER}.volumeMounts[0].readonly", "did you mean readOnly?"),
    ),
    "mount-twice": wrong(
        MOUNTS,
        "volumeMounts: [{name: data, mountPath: /data}, {name: data, mountPath: /data}]",
        (18, f"{CONTAINER}.volumeMounts[1].mountPath", "must be unique"),
    ),
    # The container.
    "container-field": wrong(
        "image: python:3.12",
        "imge: python:3.12",
        (14, f"{CONTAINER}.image", "is required"),
        (15, f"{CONTAINER}.imge", "did you mean image?"),
    ),
    "container-pod-field": wrong(
        ENV,
        "nodeSelector: {a: b}\n            " + ENV,
        (16, f"{CONTAINER}.nodeSelector", "it belongs to the pod's spec"),
    ),
    "container-name": wrong(
        "aitj-trainer", "aitj_trainer", (14, f"{CONTAINER}.name", "must be lower-case")
    ),
    "container-command": wrong(
        ENV,
        "command: python train.py\n            " + ENV,
        (16, f"{CONTAINER}.command", "must be a list"),
    ),
    "container-args": wrong(
        ENV,
        "args: [--lr, 0.1]\n            " + ENV,
        (16, f"{CONTAINER}.args[1]", "must be a text, is 0.1"),
    ),
    "container-pull-policy": wrong(
        ENV,
        "imagePullPolicy: Allways\n            " + ENV,
        (16, f"{CONTAINER}.imagePullPolicy", "did you mean Always?"),
    ),
    "container-working-dir": wrong(
        ENV,
        "workdir: /a\n            " + ENV,
        (16, f"{CONTAINER}.workdir", "did you mean workingDir?"),
    ),
    "container-probe": wrong(
        ENV,
        "livenessProbe: {httpGet: {path: /, port: 80}, periodSecond: 3}\n            " + ENV,
        (16, f"{CONTAINER}.livenessProbe.periodSecond", "did you mean periodSeconds?"),
    ),
    "container-probe-none": wrong(
        ENV,
        "livenessProbe: {periodSeconds: 3}\n            " + ENV,
        (16, f"{CONTAINER}.livenessProbe", "must specify a handler type"),
    ),
    "container-lifecycle": wrong(
        ENV,
        "lifecycle: {prestop: {exec: {command: [ls]}}}\n            " + ENV,
        (16, f"{CONTAINER}.lifecycle.prestop", "did you mean preStop?"),
    ),
    "container-twice": wrong(
        PORTS,
        PORTS + "\n          - {name: aitj-trainer, image: x}",
        (20, f"{POD}.containers[1].name", "is the same as in item 0"),
    ),
    # Its variables.
    "env-number": wrong(
        ENV,
        "env: [{name: LR, value: 0.1}]",
        (16, f"{CONTAINER}.env[0].value", "must be a text, is 0.1 (put it in quotes)"),
    ),
    "env-boolean": wrong(
        ENV,
        "env: [{name: DEBUG, value: yes}]",
        (16, f"{CONTAINER}.env[0].value", "must be a text, is true"),
    ),
    "env-map": wrong(ENV, "env: {LR: '0.1'}", (16, f"{CONTAINER}.env", "must be a list")),
    "env-name": wrong(
        ENV,
        "env: [{nam: LR}]",
        (16, f"{CONTAINER}.env[0].name", "is required"),
        (16, f"{CONTAINER}.env[0].nam", "did you mean name?"),
    ),
    "env-empty-name": wrong(
        ENV,
        'env: [{name: "", value: "1"}]',
        (16, f"{CONTAINER}.env[0].name", "Required value"),
    ),
    "env-both": wrong(
        ENV,
        "env: [{name: A, value: b, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]",
        (16, f"{CONTAINER}.env[0].valueFrom", "may not be specified when `value` is not empty"),
    ),
    "env-field-path": wrong(
        ENV,
        "env: [{name: A, valueFrom: {fieldRef: {fieldPath: spec.nme}}}]",
        (16, f"{CONTAINER}.env[0].valueFrom.fieldRef.fieldPath", "spec.nme"),
    ),
    "env-secret": wrong(
        ENV,
        "env: [{name: A, valueFrom: {secretKeyRef: {name: s}}}]",
        (16, f"{CONTAINER}.env[0].valueFrom.secretKeyRef.key", "is required"),
    ),
    # Its resources and ports.
    "resources-key": wrong(
        RESOURCES,
        "resources: {request: {cpu: 1}}",
        (17, f"{CONTAINER}.resources.request", "did you mean requests?"),
    ),
    "resources-name": wrong(
        RESOURCES,
        "resources: {limits: {cpus: 1}}",
        (17, f"{CONTAINER}.resources.limits.cpus", "did you mean cpu?"),
    ),
    "resources-gpu": wrong(
        RESOURCES,
        "resources: {limits: {gpu: 1}}",
        (17, f"{CONTAINER}.resources.limits.gpu", "did you mean nvidia.com/gpu?"),
    ),
    "resources-flat": wrong(
        RESOURCES,
        "resources: {cpu: 1, memory: 1Gi}",
        (17, f"{CONTAINER}.resources.cpu", "it belongs to requests or limits"),
        (17, f"{CONTAINER}.resources.memory", "it belongs to requests or limits"),
    ),
    "resources-unit": wrong(
        RESOURCES,
        "resources: {requests: {memory: 1GB}}",
        (17, f"{CONTAINER}.resources.requests.memory", '"1GB" is no amount'),
    ),
    "resources-above": wrong(
        RESOURCES,
        "resources: {requests: {cpu: 2}, limits: {cpu: 1}}",
        (17, f"{CONTAINER}.resources.requests.cpu", "must not be greater than the limit 1"),
    ),
    "resources-fraction": wrong(
        RESOURCES,
        'resources: {limits: {nvidia.com/gpu: "0.5"}}',
        (17, f'{CONTAINER}.resources.limits["nvidia.com/gpu"]', "must be an integer"),
    ),
    "port-text": wrong(
        PORTS,
        'ports: [{containerPort: "80"}]',
        (19, f"{CONTAINER}.ports[0].containerPort", "must be a whole number"),
    ),
    "port-range": wrong(
        PORTS,
        "ports: [{containerPort: 70000}]",
        (19, f"{CONTAINER}.ports[0].containerPort", "must be at most 65535"),
    ),
    "port-protocol": wrong(
        PORTS,
        "ports: [{containerPort: 80, protocol: tcp}]",
        (19, f"{CONTAINER}.ports[0].protocol", "did you mean TCP?"),
    ),
    "port-field": wrong(
        PORTS,
        "ports: [{port: 80}]",
        (19, f"{CONTAINER}.ports[0].containerPort", "is required"),
        (19, f"{CONTAINER}.ports[0].port", "unknown field"),
    ),
    "port-name": wrong(
        PORTS,
        "ports: [{name: a_very_long_port_name, containerPort: 80}]",
        (19, f"{CONTAINER}.ports[0].name", "must be no more than 15 characters"),
    ),
}
