"""The launcher: runs a script that knows nothing of Swell on every member, again at every change.

It takes the place of torchrun. Its files, in reading order:

- `arguments`: the command line: torchrun's flags and a few of its own.
- `decide`: when workers are started and stopped; pure.
- `variables`: the variables of each worker, for each framework.
- `rollcall`: how members learn the ports of all workers.
- `output`: files and prefixes for the workers' output.
- `reports`: the report of a program that writes it into a file.
- `processes`: child processes and process groups.
- `starts`: workers in a new interpreter, or forked from one that has the framework loaded.
- `worker`: the programs that become a worker.
- `agent`: carries out what was decided.
- `standalone`: a group of one, outside of any job.
- `program`: puts the parts together.
- `round_store`: the store of a round of torchrun's agents; nobody waits in it for the dead.
- `rendezvous`: the same group for those who stay with torchrun, as its rendezvous backend.
- `__main__`: `python -m swell.train.launch`.
"""
