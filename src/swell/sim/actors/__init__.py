"""The actors of a simulated cluster beside the processes under test.

- `pod_lifecycle`: pods that start, run, end and stop, as a kubelet reports them.
- `fleet`: nodes that fail and come back, with the pods on them.
- `nemesis`: disturbances of the cluster itself.
"""
