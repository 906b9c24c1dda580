"""The ways to have a cluster: any Kubernetes, or the embedded one."""
