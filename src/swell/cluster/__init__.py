"""The two ways to have a cluster: any Kubernetes, or the embedded one.

- `home`: the state folder of an embedded cluster and its locks.
- `private`: files and folders that only their owner can use.
- `trees`: removes folders that containers have filled.
- `nesting`: cuts what is nested too deeply to be read.
- `decoding`: the answers of an API server, from JSON bytes to the values of the port.
- `kube`: a client of any Kubernetes.
- `embedded`: a cluster of our own.
"""
