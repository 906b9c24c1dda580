"""Replays with the real operator, scheduler and autoscaler, on hollow nodes in virtual time.

In reading order:

- `manifests`: jobs of a trace, and nodes, as API objects.
- `reports`: the reports of replayed jobs.
- `programs`: replayed jobs that run where their pods are, and answer for their reports.
- `nodes`: nodes whose kubelets start and stop pods at once.
- `control`: operator, scheduler and autoscaler, put together for a replay.
- `engine`: one replay, from the first job's coming to the last one's end.
"""
