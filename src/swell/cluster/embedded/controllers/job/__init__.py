"""The Job controller: which pods a Job needs, how finished ones count, and when it has ended.

Files, in the order of one pass:

- `decide`: one pass over a Job, and the release of pods that no Job will count.
- `pods`: what a Job reads from a pod: its index, its failures, whether it counts.
- `indexes`: sets of completion indexes.
- `failurepolicy`: how a failed pod counts by podFailurePolicy.
- `counts`: counts a Job's pods.
- `end`: whether the Job has ended, and how.
- `backoff`: how long to wait after failures.
- `podchanges`: which pods to create and delete.
- `status`: moves finished pods into the status, each once, and computes the status.
"""
