"""The operator of TrainingJobs: master, pserver and trainer on built-in workloads. In this order:

- `settings`, `labels`: what may be chosen, and the names by which things are known;
- `updater/`: what to do about a job. Pure;
- `controller`: what is followed, and the loop over it;
- `running`: all of it as services.
"""
