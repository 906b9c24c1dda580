"""Many runs, and their report.

- `trial`: one run from a seed or a plan, its result, and the least faults that still fail.
- `search`: which runs to try: at random, at every write, compared with a run without faults.
- `figures`: sums over all runs, printed as a table and as JSON.
- `command`: the command line.
"""
