"""Replays traces of jobs in virtual time, to see what a policy makes of them.

- `traces`: which jobs came when, from CSV files.
- `profiles`: the measured speed and learning of programs.
- `interpolation`: step times between measured shapes.
- `throughputs`: programs of which only the speed by size is known.
- `amdahl`: programs of which only work and a serial share are known.
- `physics`: one job that runs, waits and reports.
- `histories`: histories of jobs as traces, and the other way.
- `sizers`: the policies, over replayed jobs.
- `placing`: where replicas go when sizes are applied at once.
- `engine`: the rounds of a replay.
- `figures`: completion, queueing, use and fairness.
- `calibration`: how good estimates of starts are.
- `live`: the same with the real operator, scheduler and autoscaler.
- `picture`: sizes over time, and an HTML page.
"""
