"""The built-in kinds: their schemas, and the rules that schemas do not express.

A kind's own file has its computed defaults, the values that the server decides, its validation
across fields, and which fields may change. Messages and their order are those of kube-apiserver;
the tests compare them with recorded answers.

Files, from the common parts to the table of all kinds:

- `definitions`: the schemas, the fixed defaults, and what is compiled from both.
- `rules`: the rules of one kind, put together from its schema and its behaviour.
- `fields`: checks of single fields that several kinds share.
- `scheduling`: where a pod may run: tolerations, affinity, topology spread; taints of nodes.
- `security`: security contexts, and the namespaces of the host.
- `images`: the names of images, and how they are pulled.
- `restarts`: how containers are restarted, and resized in place.
- `containers`: containers: image, ports, environment, mounts, resources, probes.
- `warnings`: what is valid but unwise.
- `volumes`: the volumes of a pod.
- `podspec`: the spec of a pod, alone or in a template.
- `pods`: pods.
- `jobstatus`: which writes of a Job's status are refused.
- `jobs`: Jobs.
- `replicasets`: ReplicaSets.
- `serviceaddresses`: the addresses of a Service, and their families.
- `servicetypes`: what the type of a Service brings with it.
- `services`: Services.
- `endpoints`: Endpoints and EndpointSlices.
- `configuration`: ConfigMaps and Secrets.
- `nodes`: Nodes and Namespaces.
- `policies`: PodDisruptionBudgets, PriorityClasses and Leases.
- `storage`: PersistentVolumes, PersistentVolumeClaims and StorageClasses.
- `podgroups`: PodGroups and Workloads, behind feature gates.
- `devices`: devices, their classes and claims, behind a gate of our own.
- `roles`: roles and role bindings.
- `events`: Events of both groups.
- `kinds`: the table of all built-in kinds, as a registry begins with it.
"""
