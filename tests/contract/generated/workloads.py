"""Pods, services, jobs and the small kinds: defaults, validation, immutable fields, subresources."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.contract.generated.steps import *  # noqa: F403

CONTAINERS: list[Any] = [
    {"image": ""},
    {"image": None},
    {"image": " x"},
    {"image": "x "},
    {"image": "x"},
    {"image": "x:latest"},
    {"image": "x@sha256:" + "0" * 64},
    {"image": "host:5000/x"},
    {"name": ""},
    {"name": None},
    {"name": "A"},
    {"name": "a.b"},
    {"name": "a" * 64},
    {"imagePullPolicy": "x"},
    {"imagePullPolicy": ""},
    {"terminationMessagePolicy": "x"},
    {"terminationMessagePath": ""},
    {"command": "x"},
    {"command": []},
    {"args": [1]},
    {"workingDir": ""},
    {"tty": "x"},
    {"stdin": True},
    {"restartPolicy": "Always"},
    {"restartPolicy": "Never"},
    {"ports": [{}]},
    {"ports": [{"containerPort": 0}]},
    {"ports": [{"containerPort": -1}]},
    {"ports": [{"containerPort": 65536}]},
    {"ports": [{"containerPort": 80, "protocol": "x"}]},
    {"ports": [{"containerPort": 80, "protocol": ""}]},
    {"ports": [{"containerPort": 80, "protocol": "SCTP"}]},
    {"ports": [{"containerPort": 80, "hostPort": 65536}]},
    {"ports": [{"containerPort": 80, "hostPort": 80}]},
    {"ports": [{"containerPort": 80, "hostPort": 80}, {"containerPort": 81, "hostPort": 80}]},
    {"ports": [{"containerPort": 80, "name": "a"}, {"containerPort": 81, "name": "a"}]},
    {"ports": [{"containerPort": 80}, {"containerPort": 80}]},
    {"ports": [{"containerPort": 80, "hostIP": "x"}]},
    {"ports": [{"containerPort": 80, "name": "A"}]},
    {"ports": [{"containerPort": 80, "name": "1"}]},
    {"ports": [{"containerPort": 80, "name": "a" * 16}]},
    {"ports": [{"containerPort": 80, "name": "a--b"}]},
    {"ports": [{"containerPort": "80"}]},
    {"env": [{}]},
    {"env": [{"name": ""}]},
    {"env": [{"name": "A=B"}]},
    {"env": [{"name": "A", "value": 1}]},
    {"env": [{"name": "A", "value": None}]},
    {"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]},
    {
        "env": [
            {"name": "A", "value": "1", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
        ]
    },
    {"env": [{"name": "A", "valueFrom": {}}]},
    {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}]},
    {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": ""}}}]},
    {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['x']"}}}]},
    {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels"}}}]},
    {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "status.podIPs"}}}]},
    {
        "env": [
            {
                "name": "A",
                "valueFrom": {"fieldRef": {"apiVersion": "v2", "fieldPath": "metadata.name"}},
            }
        ]
    },
    {
        "env": [
            {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['A B']"}}}
        ]
    },
    {"env": [{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}]},
    {"env": [{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "x"}}}]},
    {"env": [{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": ""}}}]},
    {
        "env": [
            {
                "name": "A",
                "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "3"}},
            }
        ]
    },
    {
        "env": [
            {
                "name": "A",
                "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}},
            }
        ]
    },
    {
        "env": [
            {
                "name": "A",
                "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}},
            }
        ]
    },
    {
        "env": [
            {"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "requests.hugepages-2Mi"}}}
        ]
    },
    {"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {}}}]},
    {"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "x"}}}]},
    {"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "x", "key": "a b"}}}]},
    {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "X!", "key": "a"}}}]},
    {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "x", "key": ""}}}]},
    {
        "env": [
            {
                "name": "A",
                "valueFrom": {
                    "secretKeyRef": {"name": "x", "key": "k", "optional": True},
                    "configMapKeyRef": {"name": "x", "key": "k"},
                },
            }
        ]
    },
    {"envFrom": [{}]},
    {"envFrom": [{"configMapRef": {}}]},
    {"envFrom": [{"configMapRef": {"name": "x"}, "prefix": "1="}]},
    {"envFrom": [{"configMapRef": {"name": "X!"}}]},
    {"envFrom": [{"secretRef": {"name": "x"}, "configMapRef": {"name": "y"}}]},
    {"envFrom": [{"prefix": "P_", "secretRef": {"name": "x"}}]},
    {"resources": {"limits": {"cpu": "x"}}},
    {"resources": {"limits": {"cpu": "-1"}}},
    {"resources": {"limits": {"cpu": 1}}},
    {"resources": {"limits": {"cpu": 0.5}}},
    {"resources": {"limits": {"cpu": "0.5"}}},
    {"resources": {"limits": {"cpu": "1e3"}}},
    {"resources": {"limits": {"memory": "1.5Gi"}}},
    {"resources": {"limits": {"memory": "0.1"}}},
    {"resources": {"limits": {"memory": "100m"}}},
    {"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}},
    {"resources": {"requests": {"cpu": "2"}}},
    {"resources": {"limits": {"nvidia.com/gpu": "1"}}},
    {"resources": {"requests": {"nvidia.com/gpu": "1"}}},
    {"resources": {"limits": {"nvidia.com/gpu": "1.5"}}},
    {"resources": {"limits": {"nvidia.com/gpu": "2"}, "requests": {"nvidia.com/gpu": "1"}}},
    {"resources": {"limits": {"foo": "1"}}},
    {"resources": {"limits": {"kubernetes.io/x": "1"}}},
    {"resources": {"limits": {"pods": "1"}}},
    {"resources": {"limits": {"hugepages-2Mi": "1Mi"}}},
    {"resources": {"limits": {"hugepages-2Mi": "2Mi"}}},
    {"resources": {"limits": {"hugepages-2Mi": "2Mi", "cpu": "1"}}},
    {"resources": {"limits": {"hugepages-2Mi": "3Mi", "cpu": "1"}}},
    {"resources": {"limits": {"ephemeral-storage": "1Gi"}}},
    {"resources": {"limits": {"": "1"}}},
    {"resources": {"limits": {"a b": "1"}}},
    {"resources": {"limits": {"cpu": ""}}},
    {"resources": {"limits": {"cpu": None}}},
    {"resources": {"limits": {"cpu": "1Ki"}}},
    {"resources": {"limits": {"cpu": "1" + "0" * 30}}},
    {"resources": {"limits": {"requests.cpu": "1"}}},
    {"resources": {"claims": [{"name": "x"}]}},
    {
        "resources": {
            "limits": {"cpu": "100m", "memory": "1Gi"},
            "requests": {"cpu": "100m", "memory": "1Gi"},
        }
    },
    {"resources": {"limits": {"cpu": "0.0001"}}},
    {"resources": {"limits": {"cpu": "1k"}}},
    {"resources": {"limits": {"memory": "1M"}}},
    {"resources": {"limits": {"memory": "1024Ki"}}},
    {"resources": {"limits": {"memory": "1_000"}}},
    {"resources": {"limits": {"memory": "+5"}}},
    {"resources": {"limits": {"memory": ".5Gi"}}},
    {"resources": {"limits": {"memory": "5."}}},
    {"volumeMounts": [{}]},
    {"volumeMounts": [{"name": "x", "mountPath": "/x"}]},
    {"volumeMounts": [{"name": "v", "mountPath": ""}]},
    {"volumeMounts": [{"name": "v", "mountPath": "/a"}, {"name": "v", "mountPath": "/a"}]},
    {"volumeMounts": [{"name": "v", "mountPath": "/a:b"}]},
    {"volumeMounts": [{"name": "v", "mountPath": "a"}]},
    {"volumeMounts": [{"name": "v", "mountPath": "/a", "subPath": "../x"}]},
    {"volumeMounts": [{"name": "v", "mountPath": "/a", "subPath": "/x"}]},
    {"volumeMounts": [{"name": "v", "mountPath": "/a", "subPath": "x", "subPathExpr": "y"}]},
    {"volumeMounts": [{"name": "v", "mountPath": "/a", "mountPropagation": "x"}]},
    {"volumeMounts": [{"name": "v", "mountPath": "/a", "mountPropagation": "Bidirectional"}]},
    {
        "volumeMounts": [
            {"name": "v", "mountPath": "/a", "readOnly": True, "recursiveReadOnly": "x"}
        ]
    },
    {"volumeMounts": [{"name": "v", "mountPath": "/a", "recursiveReadOnly": "Enabled"}]},
    {"volumeDevices": [{"name": "v", "devicePath": "/x"}]},
    {"livenessProbe": {}},
    {"livenessProbe": {"exec": {}}},
    {"livenessProbe": {"exec": {"command": []}}},
    {"livenessProbe": {"exec": {"command": ["x"]}}},
    {"livenessProbe": {"httpGet": {}}},
    {"livenessProbe": {"httpGet": {"port": 80}}},
    {"livenessProbe": {"httpGet": {"port": 0}}},
    {"livenessProbe": {"httpGet": {"port": "x"}}},
    {"livenessProbe": {"httpGet": {"port": "A"}}},
    {"livenessProbe": {"httpGet": {"port": 80, "scheme": "x"}}},
    {"livenessProbe": {"httpGet": {"port": 80, "path": "x"}}},
    {"livenessProbe": {"httpGet": {"port": 80, "httpHeaders": [{"name": "a b", "value": "x"}]}}},
    {"livenessProbe": {"tcpSocket": {}}},
    {"livenessProbe": {"tcpSocket": {"port": 80}}},
    {"livenessProbe": {"tcpSocket": {"port": 70000}}},
    {"livenessProbe": {"grpc": {"port": 0}}},
    {"livenessProbe": {"grpc": {"port": 80}}},
    {"livenessProbe": {"exec": {"command": ["x"]}, "tcpSocket": {"port": 1}}},
    {"livenessProbe": {"exec": {"command": ["x"]}, "periodSeconds": -1}},
    {"livenessProbe": {"exec": {"command": ["x"]}, "successThreshold": 2}},
    {"livenessProbe": {"exec": {"command": ["x"]}, "timeoutSeconds": 0, "failureThreshold": 0}},
    {
        "livenessProbe": {
            "exec": {"command": ["x"]},
            "initialDelaySeconds": -1,
            "timeoutSeconds": -1,
            "failureThreshold": -1,
        }
    },
    {"livenessProbe": {"exec": {"command": ["x"]}, "terminationGracePeriodSeconds": 0}},
    {"readinessProbe": {"exec": {"command": ["x"]}, "terminationGracePeriodSeconds": 5}},
    {"readinessProbe": {"exec": {"command": ["x"]}, "successThreshold": 2}},
    {"startupProbe": {"exec": {"command": ["x"]}, "successThreshold": 2}},
    {"startupProbe": {"httpGet": {"port": 80}}},
    {"lifecycle": {}},
    {"lifecycle": {"preStop": {}}},
    {"lifecycle": {"preStop": {"exec": {"command": ["x"]}}}},
    {"lifecycle": {"preStop": {"httpGet": {"port": 80}}}},
    {"lifecycle": {"preStop": {"sleep": {"seconds": -1}}}},
    {"lifecycle": {"preStop": {"sleep": {"seconds": 50}}}},
    {"lifecycle": {"postStart": {"tcpSocket": {"port": 1}}}},
    {"lifecycle": {"stopSignal": "SIGTERM"}},
    {"securityContext": {"runAsUser": -1}},
    {"securityContext": {"runAsUser": 0, "runAsNonRoot": True}},
    {"securityContext": {"runAsGroup": -1}},
    {"securityContext": {"allowPrivilegeEscalation": False, "privileged": True}},
    {"securityContext": {"procMount": "x"}},
    {"securityContext": {"procMount": "Default"}},
    {"securityContext": {"seccompProfile": {"type": "x"}}},
    {"securityContext": {"seccompProfile": {"type": "Localhost"}}},
    {"securityContext": {"seccompProfile": {"type": "RuntimeDefault", "localhostProfile": "x"}}},
    {"securityContext": {"capabilities": {"add": ["x"]}}},
    {
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"add": ["SYS_ADMIN"]},
        }
    },
    {"securityContext": {}},
    {"securityContext": {"appArmorProfile": {"type": "x"}}},
    {"securityContext": {"windowsOptions": {"runAsUserName": ""}}},
    {"resizePolicy": [{"resourceName": "x", "restartPolicy": "y"}]},
    {"unknown": 1},
]
SPECS: list[Any] = [
    {"containers": None},
    {"containers": []},
    {"containers": [None]},
    {"containers": [{}]},
    {"containers": "x"},
    {"containers": [{"name": "a", "image": "x"}, {"name": "a", "image": "x"}]},
    {"initContainers": [{"name": "main", "image": "x"}]},
    {
        "initContainers": [
            {"name": "i", "image": "x", "livenessProbe": {"exec": {"command": ["x"]}}}
        ]
    },
    {
        "initContainers": [
            {"name": "i", "image": "x", "lifecycle": {"preStop": {"exec": {"command": ["x"]}}}}
        ]
    },
    {
        "initContainers": [
            {
                "name": "i",
                "image": "x",
                "restartPolicy": "Always",
                "readinessProbe": {"exec": {"command": ["x"]}},
            }
        ]
    },
    {"initContainers": [{"name": "i", "image": "x", "restartPolicy": "Never"}]},
    {"initContainers": [{"name": "i", "image": ""}]},
    {
        "initContainers": [
            {"name": "i", "image": "x", "ports": [{"containerPort": 80, "hostPort": 80}]}
        ]
    },
    {"ephemeralContainers": [{"name": "e", "image": "x"}]},
    {"restartPolicy": ""},
    {"restartPolicy": "x"},
    {"restartPolicy": "OnFailure"},
    {"restartPolicy": "Never"},
    {"dnsPolicy": "x"},
    {"dnsPolicy": "None"},
    {"dnsPolicy": "None", "dnsConfig": {"nameservers": ["1.1.1.1"]}},
    {"dnsConfig": {"nameservers": ["x"]}},
    {"dnsConfig": {"nameservers": ["1.1.1.1"] * 4}},
    {"dnsConfig": {"searches": ["A B"]}},
    {"dnsConfig": {"options": [{"value": "x"}]}},
    {"terminationGracePeriodSeconds": -1},
    {"terminationGracePeriodSeconds": 0},
    {"terminationGracePeriodSeconds": "x"},
    {"activeDeadlineSeconds": 0},
    {"activeDeadlineSeconds": -1},
    {"activeDeadlineSeconds": 2147483648},
    {"activeDeadlineSeconds": 5},
    {"nodeName": "N!"},
    {"nodeName": ""},
    {"nodeSelector": {"a b": "c"}},
    {"nodeSelector": {"a": "b c"}},
    {"nodeSelector": {"a": 1}},
    {"hostname": "A"},
    {"hostname": "a.b"},
    {"hostname": "a" * 64},
    {"subdomain": "A"},
    {"subdomain": "a.b"},
    {"setHostnameAsFQDN": True},
    {"schedulerName": ""},
    {"schedulerName": "x y"},
    {"schedulerName": None},
    {"serviceAccountName": "X!"},
    {"serviceAccountName": "x"},
    {"serviceAccount": "y"},
    {"serviceAccountName": "x", "serviceAccount": "y"},
    {"automountServiceAccountToken": False},
    {"priority": 5},
    {"priority": 0},
    {"priorityClassName": "nope"},
    {"priorityClassName": "system-node-critical"},
    {"priorityClassName": "system-cluster-critical", "priority": 2000000000},
    {"priorityClassName": "system-cluster-critical", "priority": 5},
    {"priorityClassName": ""},
    {"priorityClassName": "X!"},
    {"preemptionPolicy": "Never"},
    {"preemptionPolicy": "x"},
    {"runtimeClassName": "x"},
    {"runtimeClassName": "X!"},
    {"overhead": {"cpu": "1"}},
    {"enableServiceLinks": False},
    {"shareProcessNamespace": True},
    {"shareProcessNamespace": True, "hostPID": True},
    {"hostNetwork": True},
    {"hostPID": True},
    {"hostIPC": True},
    {"hostUsers": False},
    {"hostNetwork": True, "hostUsers": False},
    {"hostAliases": [{"ip": "x"}]},
    {"hostAliases": [{"ip": "1.1.1.1", "hostnames": ["A!"]}]},
    {"hostAliases": [{"ip": "1.1.1.1", "hostnames": ["a"]}]},
    {"imagePullSecrets": [{}]},
    {"imagePullSecrets": [{"name": ""}]},
    {"imagePullSecrets": [{"name": "X!"}]},
    {"os": {"name": "x"}},
    {"os": {"name": "linux"}},
    {"os": {}},
    {"schedulingGates": [{"name": "a"}, {"name": "a"}]},
    {"schedulingGates": [{"name": "A B"}]},
    {"schedulingGates": [{"name": ""}]},
    {"readinessGates": [{"conditionType": "a b"}]},
    {"readinessGates": [{}]},
    {"resourceClaims": [{"name": "x"}]},
    {"tolerations": [{}]},
    {"tolerations": [{"operator": "Exists"}]},
    {"tolerations": [{"key": "a"}]},
    {"tolerations": [{"key": "a", "operator": "x"}]},
    {"tolerations": [{"key": "a", "operator": "Exists", "value": "x"}]},
    {"tolerations": [{"key": "a", "effect": "x"}]},
    {"tolerations": [{"key": "a", "tolerationSeconds": 5}]},
    {"tolerations": [{"key": "a", "effect": "NoExecute", "tolerationSeconds": -5}]},
    {"tolerations": [{"key": "a b"}]},
    {"tolerations": [{"key": "a", "value": "b c"}]},
    {"tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}]},
    {
        "tolerations": [
            {
                "key": "node.kubernetes.io/not-ready",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": 7,
            }
        ]
    },
    {"tolerations": [{"key": "a", "operator": "Gt", "value": "5"}]},
    {
        "tolerations": [
            {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoSchedule"}
        ]
    },
    {"affinity": {}},
    {"affinity": {"nodeAffinity": {}}},
    {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}}},
    {
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}
            }
        }
    },
    {
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}]}
            }
        }
    },
    {
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "x"}]}]
                }
            }
        }
    },
    {
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In"}]}]
                }
            }
        }
    },
    {
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["x"]}]}
                    ]
                }
            }
        }
    },
    {
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {
                            "matchFields": [
                                {"key": "metadata.name", "operator": "In", "values": ["a", "b"]}
                            ]
                        }
                    ]
                }
            }
        }
    },
    {
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {"matchFields": [{"key": "x", "operator": "In", "values": ["a"]}]}
                    ]
                }
            }
        }
    },
    {
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {"matchFields": [{"key": "metadata.name", "operator": "Exists"}]}
                    ]
                }
            }
        }
    },
    {
        "affinity": {
            "nodeAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 0, "preference": {}}]
            }
        }
    },
    {
        "affinity": {
            "nodeAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "weight": 101,
                        "preference": {"matchExpressions": [{"key": "a b", "operator": "Exists"}]},
                    }
                ]
            }
        }
    },
    {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]}}},
    {
        "affinity": {
            "podAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "a b"}]
            }
        }
    },
    {
        "affinity": {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "topologyKey": "k",
                        "labelSelector": {"matchExpressions": [{"key": "a", "operator": "x"}]},
                    }
                ]
            }
        }
    },
    {
        "affinity": {
            "podAntiAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 0, "podAffinityTerm": {"topologyKey": "k"}}
                ]
            }
        }
    },
    {
        "affinity": {
            "podAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": "k", "namespaces": ["A!"]}
                ]
            }
        }
    },
    {"topologySpreadConstraints": [{}]},
    {
        "topologySpreadConstraints": [
            {"maxSkew": 0, "topologyKey": "k", "whenUnsatisfiable": "DoNotSchedule"}
        ]
    },
    {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "", "whenUnsatisfiable": "x"}]},
    {
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "k", "whenUnsatisfiable": "DoNotSchedule"},
            {"maxSkew": 2, "topologyKey": "k", "whenUnsatisfiable": "DoNotSchedule"},
        ]
    },
    {
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "k",
                "whenUnsatisfiable": "ScheduleAnyway",
                "minDomains": 2,
            }
        ]
    },
    {
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "k",
                "whenUnsatisfiable": "DoNotSchedule",
                "minDomains": 0,
                "nodeAffinityPolicy": "x",
                "nodeTaintsPolicy": "y",
            }
        ]
    },
    {
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "k",
                "whenUnsatisfiable": "DoNotSchedule",
                "matchLabelKeys": ["a b"],
            }
        ]
    },
    {
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "k",
                "whenUnsatisfiable": "DoNotSchedule",
                "matchLabelKeys": ["app"],
                "labelSelector": {"matchLabels": {"app": "x"}},
            }
        ]
    },
    {"securityContext": {"runAsUser": -1}},
    {"securityContext": {"fsGroup": -1}},
    {"securityContext": {"supplementalGroups": [-1]}},
    {"securityContext": {"sysctls": [{"name": "x!", "value": "1"}]}},
    {
        "securityContext": {
            "sysctls": [{"name": "kernel.shm", "value": "1"}, {"name": "kernel.shm", "value": "1"}]
        }
    },
    {"securityContext": {"fsGroupChangePolicy": "x"}},
    {"securityContext": {"seccompProfile": {"type": "Localhost"}}},
    {"securityContext": {"supplementalGroupsPolicy": "x"}},
    {"securityContext": {"runAsNonRoot": True}},
    {"volumes": [{}]},
    {"volumes": [{"name": "A"}]},
    {"volumes": [{"name": "v"}, {"name": "v"}]},
    {"volumes": [{"name": "v", "emptyDir": {}, "hostPath": {"path": "/"}}]},
    {"volumes": [{"name": "v", "emptyDir": {"medium": "x"}}]},
    {"volumes": [{"name": "v", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}]},
    {"volumes": [{"name": "v", "emptyDir": {"sizeLimit": "-1"}}]},
    {"volumes": [{"name": "v", "hostPath": {}}]},
    {"volumes": [{"name": "v", "hostPath": {"path": "../x"}}]},
    {"volumes": [{"name": "v", "hostPath": {"path": "/x", "type": "y"}}]},
    {"volumes": [{"name": "v", "configMap": {}}]},
    {"volumes": [{"name": "v", "configMap": {"name": "c"}}]},
    {"volumes": [{"name": "v", "configMap": {"name": "c", "defaultMode": 1000}}]},
    {"volumes": [{"name": "v", "configMap": {"name": "c", "items": [{"key": "", "path": ""}]}}]},
    {
        "volumes": [
            {
                "name": "v",
                "configMap": {"name": "c", "items": [{"key": "k", "path": "../x", "mode": 9999}]},
            }
        ]
    },
    {"volumes": [{"name": "v", "secret": {}}]},
    {
        "volumes": [
            {"name": "v", "secret": {"secretName": "s", "items": [{"key": "k", "path": "/x"}]}}
        ]
    },
    {"volumes": [{"name": "v", "downwardAPI": {}}]},
    {"volumes": [{"name": "v", "downwardAPI": {"items": [{"path": "x"}]}}]},
    {
        "volumes": [
            {
                "name": "v",
                "downwardAPI": {
                    "items": [{"path": "x", "fieldRef": {"fieldPath": "spec.nodeName"}}]
                },
            }
        ]
    },
    {
        "volumes": [
            {
                "name": "v",
                "downwardAPI": {
                    "items": [
                        {
                            "path": "x",
                            "fieldRef": {"fieldPath": "metadata.name"},
                            "resourceFieldRef": {"resource": "limits.cpu"},
                        }
                    ]
                },
            }
        ]
    },
    {
        "volumes": [
            {
                "name": "v",
                "downwardAPI": {
                    "items": [{"path": "x", "resourceFieldRef": {"resource": "limits.cpu"}}]
                },
            }
        ]
    },
    {"volumes": [{"name": "v", "projected": {}}]},
    {"volumes": [{"name": "v", "projected": {"sources": [{}]}}]},
    {
        "volumes": [
            {
                "name": "v",
                "projected": {
                    "sources": [
                        {"configMap": {"name": "a", "items": [{"key": "k", "path": "p"}]}},
                        {"secret": {"name": "a", "items": [{"key": "k", "path": "p"}]}},
                    ]
                },
            }
        ]
    },
    {"volumes": [{"name": "v", "persistentVolumeClaim": {}}]},
    {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "x"}}]},
    {"volumes": [{"name": "v", "nfs": {}}]},
    {"volumes": [{"name": "v", "nfs": {"server": "s", "path": "x"}}]},
    {"volumes": [{"name": "v", "unknownSource": {}}]},
    {"volumes": [{"name": "v", "image": {}}]},
    {"volumes": [{"name": "v", "image": {"reference": "x"}}]},
    {"resources": {"limits": {"cpu": "1"}}},
    {"unknown": 1},
]


def pods() -> Iterator[Case]:
    volume = {"volumes": [{"name": "v", "emptyDir": {}}]}
    for n, one in enumerate(CONTAINERS):
        made = pod(volume, one)
        yield Case("podvalidation", f"container {n} {one}"[:110], [post(PODS, made)])
        if n % 3 == 0:
            init = {"initContainers": [merged({"name": "init", "image": "x:1"}, one)], **volume}
            yield Case("podvalidation", f"init {n} {one}"[:110], [post(PODS, pod(init))])
    for n, spec in enumerate(SPECS):
        yield Case("poddefaults", f"spec {n} {spec}"[:110], [post(PODS, pod(spec))])
        if n % 2 == 0:
            yield Case(
                "job", f"template {n} {spec}"[:110], [post(JOBS, job({"template": {"spec": spec}}))]
            )
            yield Case(
                "replicaset",
                f"template {n} {spec}"[:110],
                [post(REPLICASETS, rs({"template": {"spec": spec}}))],
            )
    for left in range(0, len(SPECS), 7):
        for right in range(3, len(SPECS), 41):
            both = merged(SPECS[left], SPECS[right])
            yield Case("podvalidation", f"both {left} {right}", [post(PODS, pod(both))])
    for n, change in enumerate(SPECS):
        yield Case(
            "immutable",
            f"pod put {n} {change}"[:110],
            [
                post(PODS, pod(), keep="obj"),
                {
                    "do": "PUT " + PODS + "/a",
                    "from": "obj",
                    "edit": {
                        f"spec.{k}": ({"$delete": True} if v is None else v)
                        for k, v in change.items()
                    },
                },
                get(PODS + "/a"),
            ],
        )
        if n % 2:
            yield Case(
                "immutable",
                f"job put {n} {change}"[:110],
                [
                    post(
                        JOBS, job({"suspend": False, "parallelism": 0}), keep="obj", bodyless=True
                    ),
                    {
                        "do": "PUT " + JOBS + "/a",
                        "from": "obj",
                        "edit": {"metadata.resourceVersion": {"$delete": True}}
                        | {
                            f"spec.template.spec.{k}": ({"$delete": True} if v is None else v)
                            for k, v in change.items()
                        },
                        "bodyless": True,
                    },
                ],
            )
            yield Case(
                "immutable",
                f"rs put {n} {change}"[:110],
                [
                    post(REPLICASETS, rs(), keep="obj", bodyless=True),
                    {
                        "do": "PUT " + REPLICASETS + "/a",
                        "from": "obj",
                        "edit": {"metadata.resourceVersion": {"$delete": True}}
                        | {
                            f"spec.template.spec.{k}": ({"$delete": True} if v is None else v)
                            for k, v in change.items()
                        },
                        "bodyless": True,
                    },
                ],
            )
    for n, change in enumerate(CONTAINERS):
        if n % 2:
            yield Case(
                "immutable",
                f"container put {n} {change}"[:110],
                [
                    post(PODS, pod(), keep="obj"),
                    {
                        "do": "PUT " + PODS + "/a",
                        "from": "obj",
                        "edit": {
                            f"spec.containers[0].{k}": ({"$delete": True} if v is None else v)
                            for k, v in change.items()
                        },
                    },
                ],
            )


def services() -> Iterator[Case]:
    specs: list[Any] = [
        {},
        {"ports": None},
        {"ports": []},
        {"type": "x"},
        {"type": ""},
        {"type": "NodePort"},
        {"type": "LoadBalancer"},
        {"type": "ExternalName"},
        {"type": "ExternalName", "externalName": "a.b"},
        {"type": "ExternalName", "externalName": "A!"},
        {"type": "ExternalName", "externalName": "a.b", "clusterIP": "None"},
        {"externalName": "a.b"},
        {"clusterIP": "None"},
        {"clusterIP": "None", "ports": None},
        {"clusterIP": "x"},
        {"clusterIP": "10.96.77.7"},
        {"clusterIP": "192.168.1.1"},
        {"clusterIP": ""},
        {"clusterIPs": ["None"]},
        {"clusterIPs": ["None", "x"]},
        {"clusterIP": "None", "clusterIPs": ["10.96.1.1"]},
        {"clusterIP": "None", "type": "NodePort"},
        {"clusterIP": "None", "type": "LoadBalancer"},
        {"ports": [{"port": 0}]},
        {"ports": [{"port": 65536}]},
        {"ports": [{"port": -1}]},
        {"ports": [{"port": "80"}]},
        {"ports": [{}]},
        {"ports": [{"port": 80, "protocol": "x"}]},
        {"ports": [{"port": 80, "protocol": "UDP"}]},
        {"ports": [{"port": 80, "targetPort": 0}]},
        {"ports": [{"port": 80, "targetPort": "x"}]},
        {"ports": [{"port": 80, "targetPort": "X!"}]},
        {"ports": [{"port": 80, "targetPort": "80"}]},
        {"ports": [{"port": 80, "targetPort": ""}]},
        {"ports": [{"port": 80, "nodePort": 30000}]},
        {"type": "NodePort", "ports": [{"port": 80, "nodePort": 1}]},
        {"ports": [{"port": 80, "name": "A"}]},
        {"ports": [{"port": 80, "name": "a.b"}]},
        {"ports": [{"port": 80}, {"port": 81}]},
        {"ports": [{"port": 80, "name": "a"}, {"port": 80, "name": "b"}]},
        {"ports": [{"port": 80, "name": "a"}, {"port": 81, "name": "a"}]},
        {"ports": [{"port": 80, "appProtocol": "x"}]},
        {"ports": [{"port": 80, "appProtocol": "a b"}]},
        {"sessionAffinity": "x"},
        {"sessionAffinity": "ClientIP"},
        {
            "sessionAffinity": "ClientIP",
            "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 0}},
        },
        {
            "sessionAffinity": "ClientIP",
            "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 90000}},
        },
        {"sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 5}}},
        {"selector": {"a b": "c"}},
        {"selector": {"a": "b c"}},
        {"selector": {}},
        {"selector": {"a": "b"}},
        {"ipFamilies": ["x"]},
        {"ipFamilies": ["IPv4"]},
        {"ipFamilies": ["IPv6"]},
        {"ipFamilies": ["IPv4", "IPv4"]},
        {"ipFamilyPolicy": "x"},
        {"ipFamilyPolicy": "SingleStack"},
        {"ipFamilyPolicy": "PreferDualStack"},
        {"ipFamilyPolicy": "RequireDualStack"},
        {"externalIPs": ["x"]},
        {"externalIPs": ["127.0.0.1"]},
        {"externalIPs": ["1.1.1.1"]},
        {"loadBalancerIP": "1.1.1.1"},
        {"loadBalancerSourceRanges": ["1.1.1.0/24"]},
        {"type": "LoadBalancer", "loadBalancerSourceRanges": ["x"]},
        {"loadBalancerClass": "x"},
        {"type": "LoadBalancer", "loadBalancerClass": "e.com/x"},
        {"type": "LoadBalancer", "loadBalancerClass": "X!"},
        {"type": "LoadBalancer", "allocateLoadBalancerNodePorts": False},
        {"allocateLoadBalancerNodePorts": True},
        {"externalTrafficPolicy": "Local"},
        {"externalTrafficPolicy": "x"},
        {"type": "NodePort", "externalTrafficPolicy": "Local"},
        {"type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 30001},
        {"healthCheckNodePort": 30000},
        {"internalTrafficPolicy": "Local"},
        {"internalTrafficPolicy": "x"},
        {"publishNotReadyAddresses": True},
        {"trafficDistribution": "PreferClose"},
        {"trafficDistribution": "x"},
        {"unknown": 1},
    ]
    for n, spec in enumerate(specs):
        if "nodePort" in str(spec).lower() or spec.get("type") in ("NodePort", "LoadBalancer"):
            created = post(SERVICES, service(spec), bodyless=True)
        else:
            created = post(SERVICES, service(spec))
        yield Case("service", f"{n} {spec}"[:110], [created])
        edit = {f"spec.{k}": ({"$delete": True} if v is None else v) for k, v in spec.items()}
        yield Case(
            "immutable",
            f"service {n} {spec}"[:110],
            [
                post(SERVICES, service(), keep="obj"),
                {"do": "PUT " + SERVICES + "/a", "from": "obj", "edit": edit, "bodyless": True},
            ],
        )
        yield Case(
            "service",
            f"patch {n} {spec}"[:110],
            [post(SERVICES, service()), patch(SERVICES + "/a", {"spec": spec}, bodyless=True)],
        )


def jobs() -> Iterator[Case]:
    template = {"spec": {"restartPolicy": "OnFailure"}}
    rule = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1]}}
    specs: list[Any] = [
        {},
        {"template": None},
        {"parallelism": -1},
        {"parallelism": 0},
        {"completions": -1},
        {"completions": 0},
        {"completions": 3},
        {"parallelism": 2},
        {"completions": 3, "parallelism": 5},
        {"backoffLimit": -1},
        {"backoffLimit": 0},
        {"activeDeadlineSeconds": 0},
        {"activeDeadlineSeconds": -1},
        {"ttlSecondsAfterFinished": -1},
        {"ttlSecondsAfterFinished": 0},
        {"completionMode": "x"},
        {"completionMode": ""},
        {"completionMode": "NonIndexed"},
        {"completionMode": "Indexed"},
        {"completionMode": "Indexed", "completions": 3},
        {"completionMode": "Indexed", "completions": 200000, "parallelism": 200000},
        {"completionMode": "Indexed", "completions": 3, "backoffLimitPerIndex": 1},
        {"completionMode": "Indexed", "completions": 3, "backoffLimitPerIndex": -1},
        {
            "completionMode": "Indexed",
            "completions": 3,
            "backoffLimitPerIndex": 1,
            "maxFailedIndexes": 2,
        },
        {
            "completionMode": "Indexed",
            "completions": 3,
            "backoffLimitPerIndex": 1,
            "maxFailedIndexes": 9,
        },
        {
            "completionMode": "Indexed",
            "completions": 3,
            "backoffLimitPerIndex": 1,
            "maxFailedIndexes": -1,
        },
        {"completionMode": "Indexed", "completions": 3, "maxFailedIndexes": 1},
        {"backoffLimitPerIndex": 1},
        {"maxFailedIndexes": 1},
        {"suspend": False, "parallelism": 0},
        {"suspend": "x"},
        {"manualSelector": True},
        {"manualSelector": True, "selector": {"matchLabels": {"a": "b"}}},
        {
            "manualSelector": True,
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}},
        },
        {"selector": {"matchLabels": {"a": "b"}}},
        {"manualSelector": False},
        {"template": {"spec": {"restartPolicy": "Always"}}},
        {"template": {"spec": {"restartPolicy": None}}},
        {"template": template},
        {"template": {"metadata": {"labels": {"a b": "c"}}}},
        {"template": {"metadata": {"name": "x", "annotations": {"A B": "c"}}}},
        {"podReplacementPolicy": "x"},
        {"podReplacementPolicy": "Failed"},
        {"podReplacementPolicy": "TerminatingOrFailed"},
        {"managedBy": "x"},
        {"managedBy": "e.com/x"},
        {"managedBy": "kubernetes.io/job-controller"},
        {"podFailurePolicy": {}},
        {"podFailurePolicy": {"rules": []}},
        {"podFailurePolicy": {"rules": [{}]}},
        {"podFailurePolicy": {"rules": [rule]}},
        {"podFailurePolicy": {"rules": [rule]}, "template": template},
        {"podFailurePolicy": {"rules": [{**rule, "action": "x"}]}},
        {"podFailurePolicy": {"rules": [{**rule, "action": "FailIndex"}]}},
        {"podFailurePolicy": {"rules": [{**rule, "action": "Count"}]}},
        {
            "podFailurePolicy": {
                "rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]
            }
        },
        {
            "podFailurePolicy": {
                "rules": [{"action": "Ignore", "onPodConditions": [{"type": "a b", "status": "x"}]}]
            }
        },
        {"podFailurePolicy": {"rules": [{"action": "Ignore", "onPodConditions": []}]}},
        {
            "podFailurePolicy": {
                "rules": [{**rule, "onPodConditions": [{"type": "x", "status": "True"}]}]
            }
        },
        {
            "podFailurePolicy": {
                "rules": [{"action": "FailJob", "onExitCodes": {"operator": "x", "values": [1]}}]
            }
        },
        {
            "podFailurePolicy": {
                "rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": []}}]
            }
        },
        {
            "podFailurePolicy": {
                "rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [0]}}]
            }
        },
        {
            "podFailurePolicy": {
                "rules": [
                    {"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [0]}}
                ]
            }
        },
        {
            "podFailurePolicy": {
                "rules": [
                    {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [2, 1, 1]}}
                ]
            }
        },
        {
            "podFailurePolicy": {
                "rules": [
                    {
                        "action": "FailJob",
                        "onExitCodes": {"containerName": "nope", "operator": "In", "values": [1]},
                    }
                ]
            }
        },
        {"podFailurePolicy": {"rules": [{"action": "FailJob"}]}},
        {"podFailurePolicy": {"rules": [rule] * 21}},
        {"podFailurePolicy": {"rules": [rule]}, "podReplacementPolicy": "TerminatingOrFailed"},
        {"successPolicy": {"rules": [{"succeededIndexes": "0"}]}},
        {"completionMode": "Indexed", "completions": 3, "successPolicy": {"rules": []}},
        {"completionMode": "Indexed", "completions": 3, "successPolicy": {"rules": [{}]}},
        {
            "completionMode": "Indexed",
            "completions": 3,
            "successPolicy": {"rules": [{"succeededIndexes": "0-2"}]},
        },
        {
            "completionMode": "Indexed",
            "completions": 3,
            "successPolicy": {"rules": [{"succeededIndexes": "0-5", "succeededCount": 9}]},
        },
        {
            "completionMode": "Indexed",
            "completions": 3,
            "successPolicy": {"rules": [{"succeededIndexes": "x"}]},
        },
        {
            "completionMode": "Indexed",
            "completions": 3,
            "successPolicy": {"rules": [{"succeededCount": 1}]},
        },
        {"unknown": 1},
    ]
    for n, spec in enumerate(specs):
        yield Case("job", f"{n} {spec}"[:110], [post(JOBS, job(spec))])
        edit = {"metadata.resourceVersion": {"$delete": True}} | {
            f"spec.{k}": ({"$delete": True} if v is None else v)
            for k, v in spec.items()
            if k != "template"
        }
        for base in (
            {"suspend": False, "parallelism": 0},
            {"suspend": True, "completionMode": "Indexed", "completions": 2},
        ):
            yield Case(
                "immutable",
                f"job {n} {spec} {len(base)}"[:110],
                [
                    post(JOBS, job(base), keep="obj", bodyless=True),
                    {"do": "PUT " + JOBS + "/a", "from": "obj", "edit": edit, "bodyless": True},
                ],
            )
    for spec in (
        {},
        {"replicas": -1},
        {"replicas": 3},
        {"replicas": "x"},
        {"replicas": None},
        {"minReadySeconds": -1},
        {"minReadySeconds": 3},
        {"selector": None},
        {"selector": {}},
        {"selector": {"matchLabels": {}}},
        {"selector": {"matchLabels": {"app": "y"}}},
        {"selector": {"matchLabels": {"a b": "c"}}},
        {"selector": {"matchExpressions": [{"key": "app", "operator": "In"}]}},
        {"selector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["x"]}]}},
        {"selector": {"matchExpressions": [{"key": "app", "operator": "Exists", "values": ["x"]}]}},
        {"template": None},
        {"template": {"metadata": None}},
        {"template": {"metadata": {"labels": {"app": "z"}}}},
        {"template": {"spec": {"restartPolicy": "Never"}}},
        {"template": {"spec": {"activeDeadlineSeconds": 5}}},
        {"unknown": 1},
    ):
        yield Case(
            "replicaset",
            f"{spec}",
            [post(REPLICASETS, rs(merged({"replicas": 0}, spec)), bodyless="replicas" in spec)],
        )
        edit = {"metadata.resourceVersion": {"$delete": True}} | {
            f"spec.{k}": ({"$delete": True} if v is None else v) for k, v in spec.items()
        }
        yield Case(
            "immutable",
            f"rs {spec}",
            [
                post(REPLICASETS, rs(), keep="obj", bodyless=True),
                {"do": "PUT " + REPLICASETS + "/a", "from": "obj", "edit": edit, "bodyless": True},
            ],
        )


def small() -> Iterator[Case]:
    lists: list[tuple[str, str, str, list[Any]]] = [
        (
            LEASES,
            "coordination.k8s.io/v1",
            "Lease",
            [
                {},
                {"holderIdentity": ""},
                {"holderIdentity": "x"},
                {"leaseDurationSeconds": 0},
                {"leaseDurationSeconds": -1},
                {"leaseDurationSeconds": 5},
                {"leaseTransitions": -1},
                {"leaseTransitions": 1},
                {"renewTime": "2020-01-01T00:00:00Z"},
                {"renewTime": "2020-01-01T00:00:00.123456Z"},
                {"renewTime": "2020-01-01T00:00:00.1234567Z"},
                {"renewTime": "2020-01-01T00:00:00+02:00"},
                {"renewTime": "x"},
                {"renewTime": 5},
                {"acquireTime": None},
                {"strategy": "x"},
                {"strategy": "OldestEmulationVersion"},
                {"preferredHolder": "x"},
                {"preferredHolder": "x", "strategy": "OldestEmulationVersion"},
                {"unknown": 1},
            ],
        ),
        (
            PDBS,
            "policy/v1",
            "PodDisruptionBudget",
            [
                {},
                {"minAvailable": 1},
                {"minAvailable": "50%"},
                {"minAvailable": "150%"},
                {"minAvailable": "x"},
                {"minAvailable": -1},
                {"minAvailable": "-1%"},
                {"maxUnavailable": 0},
                {"maxUnavailable": "10%"},
                {"maxUnavailable": 1, "minAvailable": 1},
                {"selector": {}},
                {"minAvailable": 1, "selector": {"matchLabels": {"a b": "c"}}},
                {
                    "minAvailable": 1,
                    "selector": {"matchExpressions": [{"key": "a", "operator": "x"}]},
                },
                {"minAvailable": 1, "unhealthyPodEvictionPolicy": "x"},
                {"minAvailable": 1, "unhealthyPodEvictionPolicy": "AlwaysAllow"},
                {"minAvailable": 1, "unhealthyPodEvictionPolicy": ""},
                {"minAvailable": 1.5},
                {"minAvailable": True},
                {"minAvailable": ""},
                {"minAvailable": "5"},
            ],
        ),
    ]
    for path, version, kind, specs in lists:
        for spec in specs:
            yield Case(
                "smallkinds",
                f"{kind} {spec}",
                [post(path, body(version, kind, spec=spec)), get(path + "/a")],
            )
            yield Case(
                "immutable",
                f"{kind} {spec}",
                [
                    post(
                        path,
                        body(
                            version,
                            kind,
                            spec={"minAvailable": 1}
                            if kind != "Lease"
                            else {"holderIdentity": "h"},
                        ),
                    ),
                    patch(path + "/a", {"spec": spec}),
                    get(path + "/a"),
                ],
            )
    for over in (
        {"value": 5},
        {},
        {"value": 1000000000},
        {"value": 1000000001},
        {"value": -5},
        {"value": "x"},
        {"value": 5, "globalDefault": False},
        {"value": 5, "preemptionPolicy": "x"},
        {"value": 5, "preemptionPolicy": "Never"},
        {"value": 5, "description": "d"},
        {"value": 5, "unknown": 1},
        {"value": 2147483648},
        {"value": 5, "metadata": {"name": "system-x-{u}"}},
        {"value": 5, "metadata": {"name": "A"}},
    ):
        one = merged(
            body("scheduling.k8s.io/v1", "PriorityClass", metadata={"name": "c-{u}"}), over
        )
        yield Case("smallkinds", f"class {over}", [post(CLASSES, one)])
        yield Case(
            "immutable",
            f"class {over}",
            [
                post(
                    CLASSES,
                    body(
                        "scheduling.k8s.io/v1", "PriorityClass", metadata={"name": "d-{u}"}, value=5
                    ),
                ),
                patch(CLASSES + "/d-{u}", merged(over, {"metadata": None})),
                get(CLASSES + "/d-{u}"),
            ],
        )
    for over in (
        {},
        {"spec": {"unschedulable": True}},
        {"spec": {"podCIDR": "x"}},
        {"spec": {"podCIDR": "10.0.0.0/24"}},
        {"spec": {"podCIDRs": ["10.0.0.0/24", "10.0.1.0/24"]}},
        {"spec": {"providerID": "p"}},
        {"spec": {"taints": [{}]}},
        {"spec": {"taints": [{"key": "a", "effect": "x"}]}},
        {"spec": {"taints": [{"key": "a b", "effect": "NoSchedule"}]}},
        {
            "spec": {
                "taints": [
                    {"key": "a", "effect": "NoSchedule"},
                    {"key": "a", "effect": "NoSchedule"},
                ]
            }
        },
        {"spec": {"taints": [{"key": "a", "value": "b c", "effect": "NoSchedule"}]}},
        {"spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}},
        {"spec": {"externalID": "x"}},
        {"spec": {"configSource": {}}},
        {"spec": {"unknown": 1}},
        {"status": {"capacity": {"cpu": "x"}}},
        {"status": {"capacity": {"cpu": "-1"}}},
        {"status": {"capacity": {"cpu": "2", "memory": "1Gi", "pods": 5}}},
        {"status": {"capacity": {"a b": "1"}}},
        {"status": {"capacity": {"nvidia.com/gpu": "1.5"}}},
        {"status": {"conditions": [{"type": "Ready", "status": "True"}]}},
        {"status": {"addresses": [{"type": "InternalIP", "address": "1.1.1.1"}]}},
        {"status": {"phase": "x"}},
        {"status": {"nodeInfo": {"kernelVersion": "x"}}},
        {"status": {"images": [{"names": ["x"]}]}},
        {"metadata": {"annotations": {"scheduler.alpha.kubernetes.io/preferAvoidPods": "x"}}},
        {"metadata": {"name": "A"}},
    ):
        one = merged(body("v1", "Node", metadata={"name": "n-{u}"}), over)
        yield Case("smallkinds", f"node {over}", [post(NODES, one), get(NODES + "/n-{u}")])
        for sub in ("", "/status"):
            yield Case(
                "status",
                f"node{sub} {over}",
                [
                    post(NODES, body("v1", "Node", metadata={"name": "m-{u}"})),
                    patch(NODES + "/m-{u}" + sub, merged(over, {"metadata": {"name": None}})),
                    get(NODES + "/m-{u}"),
                ],
            )
    for over in (
        {},
        {"addressType": None},
        {"addressType": "x"},
        {"addressType": "FQDN"},
        {"addressType": "IPv6"},
        {"endpoints": [{}]},
        {"endpoints": [{"addresses": []}]},
        {"endpoints": [{"addresses": ["x"]}]},
        {"endpoints": [{"addresses": ["1.1.1.1"]}]},
        {"endpoints": [{"addresses": ["127.0.0.1"]}]},
        {"endpoints": [{"addresses": ["1.1.1.1", "1.1.1.2"], "conditions": {"ready": True}}]},
        {"endpoints": [{"addresses": ["1.1.1.1"], "hostname": "A"}]},
        {"endpoints": [{"addresses": ["1.1.1.1"], "nodeName": "n", "zone": "z"}]},
        {"endpoints": [{"addresses": ["1.1.1.1"], "targetRef": {"kind": "Pod"}}]},
        {"endpoints": [{"addresses": ["1.1.1.1"], "deprecatedTopology": {"a": "b"}}]},
        {"ports": [{}]},
        {"ports": [{"port": 80}]},
        {"ports": [{"port": 0, "name": "A!", "protocol": "x"}]},
        {"ports": [{"name": "a"}, {"name": "a"}]},
        {"ports": [{"port": 80, "appProtocol": "a b"}]},
        {"ports": None},
        {"endpoints": None},
        {"unknown": 1},
    ):
        yield Case(
            "smallkinds",
            f"slice {over}",
            [
                post(
                    SLICES,
                    merged(
                        body(
                            "discovery.k8s.io/v1",
                            "EndpointSlice",
                            addressType="IPv4",
                            endpoints=[{"addresses": ["1.1.1.1"]}],
                        ),
                        over,
                    ),
                ),
                patch(SLICES + "/a", {"addressType": "IPv6"}),
                get(SLICES + "/a"),
            ],
        )
    for subsets in (
        [],
        [{}],
        [{"addresses": []}],
        [{"addresses": [{"ip": "1.1.1.1"}]}],
        [{"addresses": [{"ip": "x"}], "ports": [{"port": 80}]}],
        [{"addresses": [{"ip": "127.0.0.1"}], "ports": [{"port": 80}]}],
        [{"addresses": [{"ip": "1.1.1.1"}], "ports": [{"port": 80}]}],
        [{"addresses": [{"ip": "1.1.1.1", "hostname": "A"}], "ports": [{"port": 0}]}],
        [{"notReadyAddresses": [{"ip": "1.1.1.1"}], "ports": [{"port": 80}, {"port": 81}]}],
        [
            {
                "addresses": [{"ip": "1.1.1.2"}, {"ip": "1.1.1.1"}],
                "ports": [{"port": 80, "protocol": "x"}],
            }
        ],
        "x",
    ):
        yield Case(
            "smallkinds",
            f"endpoints {subsets}",
            [post(ENDPOINTS, body("v1", "Endpoints", subsets=subsets))],
        )
    for over in (
        {"data": {"k": "v"}},
        {"data": {"": "v"}},
        {"data": {"a b": "v"}},
        {"data": {"..": "v"}},
        {"data": {"...": "v"}},
        {"data": {"..a": "v"}},
        {"data": {".": "v"}},
        {"data": {"x" * 254: "v"}},
        {"data": {"x" * 253: "v"}},
        {"data": {"k": 1}},
        {"data": None},
        {"data": []},
        {"binaryData": {"k": "x!"}},
        {"binaryData": {"k": "AAE="}},
        {"binaryData": {"k": "AAE"}},
        {"binaryData": {"k": "AA\nE="}},
        {"binaryData": {"k": ""}},
        {"binaryData": {"k": None}},
        {"data": {"k": "v"}, "binaryData": {"k": "AAE="}},
        {"immutable": True},
        {"immutable": None},
        {"immutable": "true"},
        {"data": {"k": {"$repeat": ["x", 1048577]}}},
        {"data": {"k": {"$repeat": ["x", 1048576]}}},
        {"data": {"k": {"$repeat": ["x", 1048575]}}},
        {"data": {"k": {"$repeat": ["x", 600000]}, "l": {"$repeat": ["x", 600000]}}},
        {"data": {"k": "é\u2028"}},
    ):
        yield Case(
            "config",
            f"cm {str(over)[:80]}",
            [post(CM, merged(cm(), over), bodyless="$repeat" in str(over))],
        )
        yield Case(
            "config",
            f"cm patch {str(over)[:80]}",
            [post(CM, cm(data={"z": "1"})), patch(CM + "/a", over, bodyless="$repeat" in str(over))]
            if "$repeat" not in str(over)
            else [post(CM, merged(cm(), over), bodyless=True)],
        )
        yield Case(
            "immutable",
            f"cm immutable {str(over)[:80]}",
            [
                post(CM, cm(data={"z": "1"}, immutable=True)),
                patch(CM + "/a", over if "$repeat" not in str(over) else {}),
                get(CM + "/a"),
            ],
        )
    for over in (
        {"data": {"k": "dg=="}},
        {"data": {"k": "x!"}},
        {"data": {"k": ""}},
        {"data": {"k": None}},
        {"stringData": {"k": "v"}},
        {"stringData": {"a b": "v"}},
        {"stringData": {"k": "v"}, "data": {"k": "dg==", "l": "dg=="}},
        {"stringData": {"k": ""}},
        {"type": ""},
        {"type": "x"},
        {"type": "Opaque"},
        {"type": "kubernetes.io/tls"},
        {"type": "kubernetes.io/tls", "stringData": {"tls.crt": "a", "tls.key": "b"}},
        {"type": "kubernetes.io/basic-auth"},
        {"type": "kubernetes.io/basic-auth", "stringData": {"username": "a"}},
        {"type": "kubernetes.io/ssh-auth"},
        {"type": "kubernetes.io/ssh-auth", "stringData": {"ssh-privatekey": ""}},
        {"type": "kubernetes.io/dockercfg"},
        {"type": "kubernetes.io/dockercfg", "stringData": {".dockercfg": "x"}},
        {"type": "kubernetes.io/dockerconfigjson", "stringData": {".dockerconfigjson": "{}"}},
        {"type": "kubernetes.io/dockerconfigjson"},
        {"type": "kubernetes.io/service-account-token"},
        {
            "type": "kubernetes.io/service-account-token",
            "metadata": {"annotations": {"kubernetes.io/service-account.name": "x"}},
        },
        {"type": "bootstrap.kubernetes.io/token"},
        {"immutable": True},
        {"data": {"..": "dg=="}},
        {"data": "x"},
    ):
        yield Case(
            "config",
            f"secret {over}",
            [post(SECRETS, merged(body("v1", "Secret"), over)), get(SECRETS + "/a")],
        )
        yield Case(
            "immutable",
            f"secret {over}",
            [
                post(SECRETS, body("v1", "Secret", stringData={"z": "1"})),
                patch(SECRETS + "/a", merged(over, {"metadata": None})),
                get(SECRETS + "/a"),
            ],
        )


def events() -> Iterator[Case]:
    core = body("v1", "Event", involvedObject={"namespace": "{ns}", "kind": "Pod", "name": "x"})
    new = body(
        "events.k8s.io/v1",
        "Event",
        eventTime="2020-01-01T00:00:00.000000Z",
        reportingController="e.com/c",
        reportingInstance="i",
        action="a",
        reason="r",
        type="Normal",
        regarding={"namespace": "{ns}", "kind": "Pod", "name": "x"},
    )
    overs: list[Any] = [
        {},
        {"involvedObject": None},
        {"involvedObject": {"namespace": None}},
        {"involvedObject": {"namespace": "x"}},
        {"involvedObject": {"kind": "Node", "namespace": None}},
        {"involvedObject": {"kind": "Node"}},
        {"involvedObject": {"kind": None}},
        {"type": "x"},
        {"type": ""},
        {"type": "Warning"},
        {"reason": ""},
        {"reason": "x" * 129},
        {"message": "x" * 1025},
        {"count": -1},
        {"count": 3},
        {"count": "x"},
        {"firstTimestamp": "2020-01-01T00:00:00Z"},
        {"lastTimestamp": "x"},
        {"lastTimestamp": None},
        {"eventTime": "2020-01-01T00:00:00Z"},
        {"eventTime": "2020-01-01T00:00:00.123456Z"},
        {"eventTime": None},
        {"eventTime": "x"},
        {"action": ""},
        {"action": None},
        {"action": "x" * 129},
        {"reportingController": "a b"},
        {"reportingController": None},
        {"reportingComponent": "x"},
        {"reportingInstance": None},
        {"reportingInstance": "x" * 129},
        {"series": {}},
        {"series": {"count": 1, "lastObservedTime": "2020-01-01T00:00:00.000000Z"}},
        {"series": {"count": 2, "lastObservedTime": "2020-01-01T00:00:00.000000Z"}},
        {"series": {"count": 3}},
        {"source": {"component": "x", "host": "h"}},
        {"related": {"kind": "Pod"}},
        {"note": "n"},
        {"note": "x" * 1025},
        {"regarding": None},
        {"regarding": {"namespace": "x"}},
        {"regarding": {"kind": "Node", "namespace": None}},
        {"deprecatedCount": 2},
        {"deprecatedSource": {"component": "c"}},
        {"deprecatedFirstTimestamp": "2020-01-01T00:00:00Z"},
        {"unknown": 1},
        {"metadata": {"name": None}},
        {"reportingController": ""},
    ]
    for over in overs:
        yield Case(
            "event",
            f"core {str(over)[:90]}",
            [post(EVENTS, merged(core, over)), get(EVENTS + "/a"), get(NEWEVENTS + "/a")],
        )
        yield Case(
            "event",
            f"new {str(over)[:90]}",
            [post(NEWEVENTS, merged(new, over)), get(EVENTS + "/a"), get(NEWEVENTS + "/a")],
        )
        yield Case(
            "event",
            f"core dated {str(over)[:90]}",
            [
                post(
                    EVENTS,
                    merged(
                        merged(
                            core,
                            {
                                "eventTime": "2020-01-01T00:00:00.000000Z",
                                "reportingComponent": "e.com/c",
                                "reportingInstance": "i",
                                "action": "a",
                                "reason": "r",
                                "type": "Normal",
                            },
                        ),
                        over,
                    ),
                )
            ],
        )
        yield Case(
            "event",
            f"core patch {str(over)[:90]}",
            [post(EVENTS, core), patch(EVENTS + "/a", over), get(EVENTS + "/a")],
        )
        yield Case(
            "event",
            f"new patch {str(over)[:90]}",
            [post(NEWEVENTS, new), patch(NEWEVENTS + "/a", over), get(NEWEVENTS + "/a")],
        )


def subresources() -> Iterator[Case]:
    node = {"apiVersion": "v1", "kind": "Node", "name": "n1"}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "a"}, "target": node}
    for over in (
        {},
        {"metadata": {"name": None}},
        {"metadata": {"name": "b"}},
        {"metadata": {"name": ""}},
        {"metadata": {"namespace": "default"}},
        {"metadata": None},
        {"target": None},
        {"target": {"name": None}},
        {"target": {"name": ""}},
        {"target": {"kind": "Pod"}},
        {"target": {"kind": None}},
        {"target": {"kind": ""}},
        {"target": {"apiVersion": "x"}},
        {"target": {"name": "N!"}},
        {"metadata": {"uid": "x"}},
        {"metadata": {"uid": "{uid}"}},
        {"metadata": {"resourceVersion": "1"}},
        {"metadata": {"resourceVersion": "{rv}"}},
        {"metadata": {"annotations": {"a": "b"}}},
        {"metadata": {"labels": {"a": "b"}}},
        {"metadata": {"labels": {"a b": "c"}}},
        {"kind": "Pod"},
        {"kind": None},
        {"apiVersion": None},
        {"unknown": 1},
        {"target": {"unknown": 1}},
        {"metadata": {"finalizers": ["e.com/f"]}},
    ):
        for query in ({}, {"dryRun": "All"}, {"fieldValidation": "Strict"}):
            yield Case(
                "binding",
                f"{over} {query}",
                [
                    post(
                        PODS,
                        pod(),
                        capture={"uid": "metadata.uid", "rv": "metadata.resourceVersion"},
                    ),
                    post(PODS + "/a/binding", merged(binding, over), query=query),
                    get(PODS + "/a"),
                ],
            )
        yield Case(
            "binding",
            f"bindings {over}",
            [
                post(
                    PODS, pod(), capture={"uid": "metadata.uid", "rv": "metadata.resourceVersion"}
                ),
                post("/api/v1/namespaces/{ns}/bindings", merged(binding, over)),
                get(PODS + "/a"),
            ],
        )
    for value in ([], "x", None, {}):
        yield Case(
            "binding", f"body {value}", [post(PODS, pod()), post(PODS + "/a/binding", value)]
        )
        yield Case(
            "eviction", f"body {value}", [post(PODS, pod()), post(PODS + "/a/eviction", value)]
        )
    yield Case(
        "binding",
        "missing",
        [post(PODS + "/zz/binding", merged(binding, {"metadata": {"name": "zz"}}))],
    )
    yield Case(
        "binding",
        "deleted",
        [
            post(PODS, pod(metadata={"finalizers": ["e.com/f"]})),
            delete(PODS + "/a"),
            post(PODS + "/a/binding", binding),
            get(PODS + "/a"),
        ],
    )
    yield Case(
        "binding",
        "failed",
        [
            post(PODS, pod()),
            patch(PODS + "/a/status", {"status": {"phase": "Failed"}}),
            post(PODS + "/a/binding", binding),
            get(PODS + "/a"),
        ],
    )
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}}
    budget = body(
        "policy/v1",
        "PodDisruptionBudget",
        spec={"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}},
    )
    running = [
        post(PODS, pod({"nodeName": "n1"}, metadata={"labels": {"a": "b"}})),
        patch(
            PODS + "/a/status",
            {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}},
        ),
    ]
    for over in (
        {},
        {"metadata": {"name": "b"}},
        {"metadata": {"name": None}},
        {"metadata": None},
        {"metadata": {"namespace": "default"}},
        {"apiVersion": "policy/v1beta1"},
        {"apiVersion": "v1"},
        {"kind": "Pod"},
        {"kind": None},
        {"deleteOptions": {}},
        {"deleteOptions": {"gracePeriodSeconds": 0}},
        {"deleteOptions": {"gracePeriodSeconds": -1}},
        {"deleteOptions": {"dryRun": ["All"]}},
        {"deleteOptions": {"dryRun": ["x"]}},
        {"deleteOptions": {"preconditions": {"uid": "x"}}},
        {"deleteOptions": {"preconditions": {"resourceVersion": "1"}}},
        {"deleteOptions": {"propagationPolicy": "Foreground"}},
        {"deleteOptions": {"propagationPolicy": "x"}},
        {"deleteOptions": "x"},
        {"deleteOptions": {"unknown": 1}},
        {"unknown": 1},
    ):
        yield Case(
            "eviction",
            f"pending {over}",
            [
                post(PODS, pod()),
                post(PODS + "/a/eviction", merged(eviction, over)),
                get(PODS + "/a"),
            ],
        )
        yield Case(
            "eviction",
            f"running {over}",
            [*running, post(PODS + "/a/eviction", merged(eviction, over)), get(PODS + "/a")],
        )
        yield Case(
            "eviction",
            f"budget {over}",
            [
                post(PDBS, budget),
                *running,
                post(PODS + "/a/eviction", merged(eviction, over)),
                get(PODS + "/a"),
                get(PDBS + "/a"),
            ],
        )
        for status in (
            {
                "disruptionsAllowed": 1,
                "currentHealthy": 2,
                "desiredHealthy": 1,
                "expectedPods": 2,
                "observedGeneration": 1,
            },
            {
                "disruptionsAllowed": 0,
                "currentHealthy": 1,
                "desiredHealthy": 1,
                "expectedPods": 1,
                "observedGeneration": 1,
            },
            {
                "disruptionsAllowed": -1,
                "currentHealthy": 0,
                "desiredHealthy": 1,
                "expectedPods": 1,
                "observedGeneration": 1,
            },
        ):
            yield Case(
                "eviction",
                f"status {status['disruptionsAllowed']} {over}",
                [
                    post(PDBS, budget),
                    patch(PDBS + "/a/status", {"status": status}),
                    *running,
                    post(PODS + "/a/eviction", merged(eviction, over)),
                    get(PODS + "/a"),
                    get(PDBS + "/a"),
                ],
            )
    scale = {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {"name": "a"},
        "spec": {"replicas": 0},
    }
    for over in (
        {},
        {"spec": {"replicas": -1}},
        {"spec": {"replicas": "x"}},
        {"spec": None},
        {"spec": {"replicas": None}},
        {"metadata": {"name": "b"}},
        {"metadata": {"name": None}},
        {"metadata": {"resourceVersion": "1"}},
        {"metadata": {"resourceVersion": "x"}},
        {"metadata": {"uid": "x"}},
        {"metadata": {"labels": {"a": "b"}}},
        {"metadata": {"namespace": "default"}},
        {"kind": "ReplicaSet"},
        {"kind": None},
        {"apiVersion": "v1"},
        {"apiVersion": None},
        {"status": {"replicas": 5}},
        {"unknown": 1},
        {"spec": {"unknown": 1}},
    ):
        yield Case(
            "scale",
            f"put {over}",
            [
                post(REPLICASETS, rs(), bodyless=True),
                get(REPLICASETS + "/a/scale"),
                put(REPLICASETS + "/a/scale", merged(scale, over)),
                get(REPLICASETS + "/a/scale"),
            ],
        )
        for kind in ("merge", "strategic"):
            yield Case(
                "scale",
                f"{kind} {over}",
                [
                    post(REPLICASETS, rs(), bodyless=True),
                    patch(REPLICASETS + "/a/scale", over, kind),
                    get(REPLICASETS + "/a/scale"),
                ],
            )
        yield Case(
            "scale",
            f"strict {over}",
            [
                post(REPLICASETS, rs(), bodyless=True),
                put(
                    REPLICASETS + "/a/scale",
                    merged(scale, over),
                    query={"fieldValidation": "Strict"},
                ),
            ],
        )
    for ops in (
        [{"op": "replace", "path": "/spec/replicas", "value": 0}],
        [{"op": "replace", "path": "/spec/replicas", "value": -2}],
        [{"op": "remove", "path": "/spec/replicas"}],
        [{"op": "add", "path": "/status/replicas", "value": 4}],
        [{"op": "test", "path": "/spec/replicas", "value": 9}],
    ):
        yield Case(
            "scale",
            f"json {ops}",
            [
                post(REPLICASETS, rs(), bodyless=True),
                patch(REPLICASETS + "/a/scale", ops, "json"),
                get(REPLICASETS + "/a/scale"),
            ],
        )
    yield Case(
        "scale",
        "forms",
        [
            post(REPLICASETS, rs(), bodyless=True),
            get(
                REPLICASETS + "/a/scale",
                headers={"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"},
            ),
            get(
                REPLICASETS + "/a/scale",
                headers={"Accept": "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"},
            ),
            put(REPLICASETS + "/a/scale", scale, query={"dryRun": "All"}),
            delete(REPLICASETS + "/a/scale"),
            post(REPLICASETS + "/a/scale", scale),
        ],
    )


def status() -> Iterator[Case]:
    for value in (
        {},
        {"phase": "Running"},
        {"phase": "x"},
        {"phase": ""},
        {"phase": 5},
        {"conditions": [{}]},
        {"conditions": [{"type": "Ready"}]},
        {"conditions": [{"type": "Ready", "status": "x"}]},
        {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Ready", "status": "False"}]},
        {"conditions": [{"type": "a b", "status": "True"}]},
        {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "x"}]},
        {"conditions": [{"type": "Ready", "status": "True", "observedGeneration": -1}]},
        {"containerStatuses": [{}]},
        {"containerStatuses": [{"name": "main", "state": {"terminated": {"exitCode": 1}}}]},
        {
            "containerStatuses": [
                {"name": "nope", "image": "x", "imageID": "", "ready": True, "restartCount": 0}
            ]
        },
        {
            "containerStatuses": [
                {"name": "main", "image": "x", "imageID": "", "ready": True, "restartCount": -1}
            ]
        },
        {"podIP": "x"},
        {"podIP": "10.0.0.1"},
        {"podIPs": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}]},
        {"podIPs": [{"ip": "10.0.0.1"}, {"ip": "::1"}]},
        {"hostIP": "1.1.1.1"},
        {"hostIPs": [{"ip": "x"}]},
        {"qosClass": "Guaranteed"},
        {"nominatedNodeName": "N!"},
        {"nominatedNodeName": "n"},
        {"reason": "r", "message": "m"},
        {"startTime": "x"},
        {"startTime": "2020-01-01T00:00:00Z"},
        {"observedGeneration": -1},
        {"observedGeneration": 5},
        {"unknown": 1},
        {"resize": "x"},
        {
            "initContainerStatuses": [
                {"name": "i", "image": "x", "imageID": "", "ready": True, "restartCount": 0}
            ]
        },
    ):
        yield Case(
            "status",
            f"pod {value}",
            [post(PODS, pod()), patch(PODS + "/a/status", {"status": value}), get(PODS + "/a")],
        )
        yield Case(
            "status",
            f"pod put {value}",
            [
                post(PODS, pod(), keep="obj"),
                {
                    "do": "PUT " + PODS + "/a/status",
                    "from": "obj",
                    "edit": {f"status.{k}": v for k, v in value.items()},
                },
                get(PODS + "/a"),
            ],
        )
        yield Case("status", f"pod create {value}", [post(PODS, merged(pod(), {"status": value}))])
    for meta in (
        {"labels": {"a": "b"}},
        {"labels": {"a b": "c"}},
        {"annotations": {"a": "b"}},
        {"finalizers": ["e.com/f"]},
        {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}]},
        {"name": "b"},
        {"resourceVersion": "1"},
        {"uid": "x"},
        {"generation": 7},
        {"deletionTimestamp": "2020-01-01T00:00:00Z"},
    ):
        for path, one in (
            (PODS, pod()),
            (JOBS, job()),
            (REPLICASETS, rs()),
            (WIDGETS, widget()),
            (SERVICES, service()),
            (PDBS, body("policy/v1", "PodDisruptionBudget", spec={"minAvailable": 1})),
        ):
            yield Case(
                "status",
                f"{path.split('/')[-1]} meta {meta}",
                [
                    post(path, one, bodyless=True),
                    patch(path + "/a/status", {"metadata": meta}, bodyless=True),
                    get(
                        path + "/a",
                        bodyless=True,
                        look=["metadata.labels", "metadata.annotations", "metadata.finalizers"],
                    ),
                ],
            )
    for path, one, values in (
        (
            JOBS,
            job(),
            [
                {"active": -1},
                {"active": 1},
                {"succeeded": 2},
                {"ready": 5},
                {"conditions": [{"type": "Complete", "status": "True"}]},
                {
                    "conditions": [
                        {"type": "Failed", "status": "True"},
                        {"type": "Complete", "status": "True"},
                    ]
                },
                {"completedIndexes": "x"},
                {"startTime": "2020-01-01T00:00:00Z"},
                {"completionTime": "2020-01-01T00:00:00Z"},
                {"uncountedTerminatedPods": {"succeeded": ["u"]}},
                {"unknown": 1},
            ],
        ),
        (
            REPLICASETS,
            rs(),
            [
                {"replicas": -1},
                {"replicas": 0, "readyReplicas": 5},
                {"replicas": 2, "availableReplicas": 3, "readyReplicas": 1},
                {"observedGeneration": -1},
                {"unknown": 1},
                {"conditions": [{"type": "x", "status": "True"}]},
            ],
        ),
        (
            PDBS,
            body("policy/v1", "PodDisruptionBudget", spec={"minAvailable": 1}),
            [
                {"disruptionsAllowed": -1},
                {"currentHealthy": -1},
                {"disruptedPods": {"p": "2020-01-01T00:00:00Z"}},
                {"conditions": [{}]},
                {
                    "conditions": [
                        {
                            "type": "x",
                            "status": "True",
                            "reason": "r",
                            "message": "",
                            "lastTransitionTime": "2020-01-01T00:00:00Z",
                        }
                    ]
                },
                {"observedGeneration": 5},
            ],
        ),
        (
            SERVICES,
            service(),
            [
                {"loadBalancer": {"ingress": [{"ip": "1.1.1.1"}]}},
                {"loadBalancer": {"ingress": [{"ip": "x"}]}},
                {
                    "conditions": [
                        {
                            "type": "x",
                            "status": "True",
                            "reason": "r",
                            "message": "",
                            "lastTransitionTime": "2020-01-01T00:00:00Z",
                        }
                    ]
                },
            ],
        ),
        (
            WIDGETS,
            widget(),
            [
                {"phase": "x"},
                {"phase": 5},
                {"count": "x"},
                {"unknown": 1},
                {"conditions": [{"type": "a"}, {"type": "a"}]},
                {"conditions": [{}]},
            ],
        ),
    ):
        for value in values:
            yield Case(
                "status",
                f"{path.split('/')[-1]} {value}",
                [
                    post(path, one, bodyless=True),
                    patch(
                        path + "/a/status",
                        {"status": value},
                        bodyless=True,
                        look=["metadata.generation"],
                    ),
                    patch(path + "/a/status", {"spec": {"zz": 1}}, bodyless=True),
                ],
            )


def all_cases() -> Iterator[Case]:
    for family in (pods, services, jobs, small, events, subresources, status):
        yield from family()
