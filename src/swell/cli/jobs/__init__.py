"""Commands for jobs.

- `run`: `swell run` and `swell logs`.
- `follow`: stays with a job to its end.
- `logs`: the output of a job's containers, from files or from the API server.
- `actions`: `swell fail`, `preempt` and `scale`.
"""
