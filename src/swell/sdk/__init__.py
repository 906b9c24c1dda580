"""The SDK: what `import swell` offers to Python programs; `swell.aio` is its asynchronous form.

It does what the command line does, by the same functions, and says the same words.

- `errors`: the error and the warning that users of the SDK see.
- `cluster`: `connect`, and the cluster that jobs are submitted to.
- `options`: the options of a job, as keywords.
- `functions`: the command that runs a Python function in a job.
- `shortcuts`: `submit`, `sweep` and `watch` on the cluster that is chosen.
- `job`: a job that was submitted.
- `sweep`: many jobs, one for each row of parameters.
"""
