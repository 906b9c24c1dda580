"""Commands for jobs.

- `run`: `swell run` and `attach`.
- `command_job`: the job that `run` makes of a command, and the caller's environment.
- `launching`: workers and checkpoints of such a job.
- `log_command`: `swell logs`.
- `log_options`: which part of a log is printed.
- `submission`: reads what warnings about a job depend on, and prints them.
- `warnings`: which jobs cannot start, or will disappoint.
- `following`: stays with a job to its end, and reports it.
- `interrupting`: Ctrl-C meanwhile, and the question it asks.
- `follow`: watches a job and its output.
- `live_line`: the line that says where the job is.
- `logs`: the output of a job's containers, from files or from the API server.
- `job_pods`: the pods, roles and log folders of a job of either kind.
- `trainer_size`: sets the number of a TrainingJob's trainers.
- `launch`: `swell launch`, which runs inside a job's containers.
- `stopping`: `swell stop`, and its older forms `fail` and `preempt`.
- `scaling`: `swell scale`.
- `suspension`: `swell suspend` and `resume`.
"""
