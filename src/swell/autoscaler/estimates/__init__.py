"""When waiting jobs will start, with a spread: pure arithmetic over what is known of running ones.

- `remaining`: how long a running job will take yet, as a distribution.
- `rolling`: rolls the cluster forward, and finds when each waiting job fits.
- `jobs`: the same for jobs as the autoscaler sees them.
- `keeper`: when estimates are made, and which of them are written.
"""
