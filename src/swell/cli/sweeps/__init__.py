"""Sweeps: many jobs of one command, one for each row of parameters.

On a cluster they are ordinary AITrainingJobs with a label in common.

- `command`: `swell sweep`, which submits a sweep and follows it.
- `rows`: the rows of a grid, a file or an array.
- `row_jobs`: the job of each row.
- `submitting`: creates the jobs of a sweep.
- `state`: how far a sweep is, as a table and as JSON.
- `follow`: stays with a sweep to its end.
- `actions`: `get`, `logs` and `stop` for a sweep.
- `retry`: `swell retry`, which runs jobs again.
"""
