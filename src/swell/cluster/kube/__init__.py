"""Any Kubernetes through the cluster port."""
