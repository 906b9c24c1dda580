"""Any Kubernetes: kubeconfig and in-cluster access, an asyncio client, and one for single calls."""
