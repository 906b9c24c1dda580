"""The small controllers a cluster brings along, for when the cluster is embedded."""
