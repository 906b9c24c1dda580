"""The `swell` command.

`main` finds the module of a command and imports nothing else: quick commands stay quick. A command
parses its options, connects to the chosen cluster, does its work and prints. It ends with a
`CommandError` when it cannot: one sentence, one hint, an exit code.

- `main`: the entry; the table of commands, and how a command line ends.
- `quick`: the plain forms of `get`, with nothing loaded but the standard library.
- `command_line`: exit codes, notes on stderr and `CommandError`.
- `invocation`: the arguments as written.
- `booleans`: boolean flags that are given a value.
- `options`: options that commands share, and dataclasses of options as parameters.
- `choice`: which cluster a command talks to.
- `saved_choice`: the file of a choice that lasts.
- `connection`: opens that cluster for a few calls.
- `error_texts`: a sentence and a hint for every error of a cluster or of this machine.
- `foreign_commands`: what commands of other programs are called here.
- `store_errors`: the same for the store of the embedded cluster.
- `extras`: packages that not every installation has.
- `arguments`: the kind and the names in `[KIND] [NAME]...`.
- `job_kinds`: finds a job by name, of either kind.
- `manifests`: reads manifests; `validate`, `render` and `crds`.
- `manifest_checks`: checks pod templates and built-in kinds as an API server does.
- `output`: tables, JSON and YAML on stdout.
- `positions`: the positions of waiting jobs in their queues.
- `about`: `version` and `completion`.
- `completing`: what a command line could go on with.
- `objects`: `get`, `describe`, `delete`, `apply`, `wait` and others, for objects of any kind.
- `bulk`: many calls over several connections at a time.
- `progress`: one line on a terminal that is replaced as work goes on.
- `sweep_names`: `sweep/X` among the arguments of a command.
- `jobs`: `run`, `launch`, `logs`, `stop` and `scale`.
- `pods`: `exec`, `cp` and `port-forward`, which reach into running pods.
- `sweeps`: `sweep` and `retry`, many jobs of one command.
- `queue`: `queue` and its subcommands.
- `explain`: `explain`, why a job waits.
- `history`: `history` and `report`, what became of jobs.
- `plan`: `plan`, decisions over objects in files.
- `replay`: `replay`, what a policy would have made of a trace.
- `cluster`: `up`, `down`, `dashboard`, `cluster`, `use`, `backup`, `restore`, `check`, `chaos`
  and `uninstall`.
- `controllers`: `operator`, `scheduler`, `server` and `node`, the programs that stay.
"""
