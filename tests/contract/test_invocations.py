"""A script of what people who come from kubectl or Slurm type: each works, or says the right word.

A line is a command, its exit code, and a part of what it answers: on stdout if it succeeds, on
stderr if not. The lines run in order, on one cluster. `{file}` is a manifest of a job.
"""

from __future__ import annotations

import shlex

from swell.cli.main import COMMANDS
from tests.contract.swell_command import Swell

MANIFEST = """\
apiVersion: elasticdeeplearning.ai/v1
kind: AITrainingJob
metadata: {name: fit, labels: {team: a}}
spec:
  replicaSpecs:
    trainer:
      replicas: 2
      template: {spec: {containers: [{name: aitj-trainer, image: python}]}}
"""
SCRIPT = """\
--help | 0 | Usage: swell COMMAND
-h | 0 | Usage: swell COMMAND
help | 0 | Usage: swell COMMAND
help run | 0 | Usage: swell run
help queue create | 0 | Usage: swell queue create
help sbatch | 2 | swell run -- COMMAND
kubectl get pods | 2 | swell get pods
run {file} --image x --cpu 1 | 2 | --cpu, --image: a manifest says itself
--version | 0 | client
-V | 0 | client
version | 0 | server v1.36
version -o json | 0 | "client"
version --output=json | 0 | "server"
cluster | 0 | A command asks the first
cluster -o json | 0 | "chosenBy"
api-resources | 0 | aitrainingjobs
api-resources --no-headers | 0 | trainingjobs
auth can-i create aitj | 0 | yes
auth can-i delete pods | 0 | yes
auth can-i get jobs | 0 | yes
auth can-i fly | 2 | a verb and a kind
auth | 2 | which of its commands?
validate {file} | 0 |
validate {file} -o json | 0 | "valid": true
validate --ignore-unknown {file} | 0 |
render {file} | 0 | kind: AITrainingJob
crds | 0 | CustomResourceDefinition
completion bash | 0 | complete
completion zsh | 0 | compdef
completion fish | 0 | __swell_complete
__complete va | 0 | validate
__complete get aitr | 0 | aitrainingjobs
__complete stop --as P | 0 | Preempted
--quiet version | 0 | client
version --quiet | 0 | client
apply -f {file} | 0 | aitrainingjob/fit created
apply -f {file} | 0 | aitrainingjob/fit unchanged
apply --filename {file} | 0 | unchanged
apply --filename={file} | 0 | unchanged
apply -f={file} | 0 | unchanged
apply --strict -f {file} --ignore-unknown | 0 | unchanged
apply -R -f {file} | 0 | unchanged
diff -f {file} | 0 |
create -f {file} -n default | 0 | aitrainingjob/fit created
create -f {file} -n default | 1 | already exists
delete -f {file} -n default --no-wait | 0 | aitrainingjob/fit deleted
create | 2 | say what to create
create namespace | 2 | Missing argument
create namespace from-script | 0 | namespace/from-script created
create ns from-script | 1 | already exists
create configmap of-script --from-literal=a=b -n default | 0 | configmap/of-script created
create cm other --from-literal=a | 2 | not KEY=VALUE
create cm other --from-file=missing | 1 | missing
create secret generic of-script --from-literal token=abc -n default | 0 | secret/of-script created
create secret a b c | 2 | one secret at a time
create priorityclass from-script --value=7 --global-default=false | 0 | created
create queue from-script --weight 2 | 0 | queue/from-script created
create pod x | 2 | No such command
create job x --image=y | 2 | swell run -- COMMAND
create deployment x --image=y | 2 | as manifests: swell apply -f FILE
create sa x | 2 | swell user
create quota x | 2 | swell queue create
create secret tls x --cert=a | 2 | No such option
create secret tls x | 2 | kubectl create secret tls
create ns dry --dry-run=client -o yaml | 0 | kind: Namespace
create ns dry --dry-run=server | 0 | namespace/dry created (server dry run)
create cm dry --from-literal=a=b --dry-run=client -o json | 0 | "a": "b"
create cm dry --from-env-file=/dev/null --dry-run=client | 0 | configmap/dry created (dry run)
create -f {file} -n default --dry-run=client -o name | 0 | aitrainingjob/fit
create pc dry --dry-run=server -o name | 0 | priorityclass/dry
edit | 2 | Missing argument
edit aitj | 2 | give a name
edit aitj missing | 1 | not found
drain | 2 | say which nodes
suspend | 2 | Missing argument
resume | 2 | Missing argument
retry | 2 | Missing argument
replay | 2 | Missing argument
sweep | 2 | say which rows
drain missing-node | 1 | not found
delete cm/of-script secret/of-script -n default | 0 | secret/of-script deleted
delete ns/from-script pc/from-script queue/from-script --no-wait | 0 | deleted
apply -f {file} --dry-run=client | 0 | aitrainingjob/fit unchanged (dry run)
apply -f {file} --dry-run=server | 0 | aitrainingjob/fit unchanged (server dry run)
apply -f {file} -o name | 0 | aitrainingjob/fit
apply -f {file} -o jsonpath={.metadata.name} | 0 | fit
apply -f {file} -o wide | 2 | make no table
apply -f {file} --dry-run=later | 2 | 'later' is not one of
patch aitj fit -p '{"metadata":{"labels":{"x":"1"}}}' | 0 | aitrainingjob/fit patched
patch fit -p 'metadata: {labels: {x: "1"}}' | 0 | aitrainingjob/fit patched (no change)
patch aitj/fit --type=json -p '[{"op":"remove","path":"/metadata/labels/x"}]' | 0 | patched
patch fit -p 'metadata: {labels: {x: "2"}}' --dry-run=server -o jsonpath={.metadata.labels} | 0 | 2
patch fit --type merge -p 'metadata: {labels: {x: "2"}}' --dry-run=client | 0 | (dry run)
patch fit --subresource=status -p 'status: {}' | 0 | aitrainingjob/fit patched
patch fit --patch-file missing.json | 1 | No such file
patch fit -p '[' | 2 | neither JSON nor YAML
patch fit -p '[]' | 2 | has to be an object
patch fit --type json -p '{}' | 2 | has to be a list
patch fit | 2 | say what to change
patch aitj -p '{}' | 2 | give their names
patch nobody -p '{}' | 1 | not found
explain aitj.spec.replicaSpecs.edlPolicy | 0 | Who resizes the role
explain aitrainingjobs | 0 | An elastic job
explain aitj.spec.qeue | 1 | did you mean queue?
explain pod.spec.containers.resources | 0 | requests <map[string]
explain pods --recursive | 0 | nodeSelector
explain job.spec | 0 | cleanPodPolicy
auth can-i create pods -A | 0 | yes
auth can-i '*' '*' | 0 | yes
auth can-i get pods --subresource=log | 0 | yes
auth can-i --list | 0 | VERBS
auth can-i list gadgets | 1 | has no kind 'gadgets'
auth whoami | 0 | Username
auth whoami -o json | 0 | "username"
api-resources --namespaced=false | 0 | nodes
api-resources --api-group=elasticdeeplearning.ai -o name | 0 | aitrainingjobs.elasticdeeplearning.ai
api-resources -o wide | 0 | KIND
version --client | 0 | client
top nodes | 0 | MEMORY%
top nodes --sort-by=cpu --no-headers | 0 |
top node nowhere | 1 | no node nowhere
top pods | 0 | PHASE
top pods -A -l team=zzz --sort-by memory | 0 | NAMESPACE
top jobs | 2 | swell top nodes
top pods --sort-by age | 2 | --sort-by cpu or memory
taint nodes nowhere a=b:NoSchedule | 1 | not found
taint nodes nowhere a=b:Never | 2 | no effect of a taint
taint node nowhere a=b | 2 | not a taint
taint node nowhere | 2 | which taints
taint --all -l a=b c=d:NoExecute | 2 | not several
cordon -l no=where --dry-run=client | 1 | no node has the labels
drain -l no=where --pod-selector a=b --timeout 1s --dry-run=server | 1 | no node has the labels
events --types=Warning --no-headers | 0 |
events --types=Bad | 2 | not a type of events
events -w -o json | 2 | leave -o out
get -f {file} | 0 | fit
get aitj --show-kind | 0 | aitrainingjob/fit
get aitj --label-columns team | 0 | TEAM
get --raw /readyz | 0 | ok
get --raw readyz | 2 | not a path
get -o go-template={.x} | 2 | those of jsonpath are
get -o jsonpath-file=missing | 1 | No such file
describe -f {file} | 0 | State:
label -f {file} grade=0 | 0 | labeled
label aitj --all grade=0 | 0 | labeled
label aitj -l team=a grade=3 --overwrite --dry-run=server -o name | 0 | aitrainingjob/fit
label fit --list | 0 | team=a
label aitj rank- | 2 | give their names
annotate aitj --all note- | 0 | annotated
wait -f {file} --for=create | 0 | condition met
wait aitj --all --for=create | 0 | condition met
wait aitj -l team=a --for=create -A | 0 | condition met
wait aitj --for=create | 2 | give their names
delete aitj fit --dry-run=client | 0 | deleted (dry run)
delete aitj fit --dry-run=server --cascade=orphan -o name | 0 | aitrainingjob/fit
delete pods --field-selector status.phase=Failed | 0 |
delete aitj --all --timeout=1s --dry-run=server | 0 | (server dry run)
logs fit --since-time=2026-01-01T00:00:00Z --limit-bytes=9 --prefix --all-containers | 0 |
logs fit --since-time=yesterday | 2 | not a time
logs fit --all-containers -c x | 2 | contradict
apply {file} | 2 |
apply | 2 | Missing option '-f'
apply -f missing.yaml | 1 | no such file
get | 0 | fit
get -o wide | 0 | REASON
get -o=wide | 0 | REASON
get -owide | 0 | REASON
get --output wide | 0 | REASON
get -o name | 0 | aitrainingjob/fit
get -o json | 0 | "kind": "List"
get -o yaml | 0 | kind: List
get -o xml | 2 | 'xml' is not one of
get -o jsonpath={.items[0].metadata.name} | 0 | fit
get -o jsonpath={.items[*].kind} | 0 | AITrainingJob
get -o jsonpath | 2 | needs a template
get -o jsonpath={.items | 2 | a brace is not closed
get -o custom-columns=N:.metadata.name | 0 | fit
get -o custom-columns | 2 | needs a template
get -o custom-columns=N | 2 | not a column
get --no-headers | 0 | fit
get --show-labels | 0 | team=a
get --sort-by .metadata.name | 0 | fit
get --sort-by={.metadata.name} | 0 | fit
get -l team=a | 0 | fit
get --selector team=a | 0 | fit
get --selector=team=a | 0 | fit
get -l team=b -o json | 0 | "items": []
get --field-selector metadata.name=fit | 0 | fit
get fit | 0 | fit
get fit -o json | 0 | "AITrainingJob"
get fit -l team=a | 2 | cannot be given together
get fit -A | 2 | leave -A out
get nobody | 1 | not found
get nobody --ignore-not-found | 0 |
get aitj | 0 | fit
get aitj fit | 0 | fit
get aitj/fit | 0 | fit
get aitrainingjob fit | 0 | fit
get aitrainingjobs.elasticdeeplearning.ai | 0 | fit
get AITrainingJob | 0 | fit
get job | 0 | fit
get jobs | 0 | fit
get job fit | 0 | fit
get job/fit | 0 | fit
get jobs.batch -o name | 0 |
get tj -o name | 0 |
get trainingjobs -o name | 0 |
get pods -o name | 0 |
get po -o name | 0 |
get pods,services -o name | 0 |
get aitj,cm | 0 | aitrainingjob/fit
get all | 0 | aitrainingjob/fit
get nodes -o name | 0 |
get cm -o json --show-managed-fields | 0 | "kind": "List"
apply --server-side -f {file} | 0 | serverside-applied
apply --server-side --force-conflicts --field-manager me -f {file} | 0 | serverside-applied
apply --force-conflicts -f {file} | 2 | only a server-side apply
exec | 2 | Missing argument
exec nobody -- ls | 1 | no pod and no job nobody
exec -n default fit ls | 2 | put -- before the command
exec fit | 2 | say which command
exec -it fit -- sh | 1 | no pod of fit runs
cp a b | 2 | one side has to be a pod's
cp a nobody:/b | 1 | no pod and no job nobody
port-forward | 2 | Missing argument
port-forward nobody 80 | 1 | no pod and no job nobody
port-forward --address 127.0.0.1 fit x | 2 | 'x' is no port
get ns | 0 | default
get namespaces -o name | 0 | namespace/default
get cm -o name | 0 |
get secrets -o name | 0 |
get svc -o name | 0 |
get events -o name | 0 |
get ev -o name | 0 |
get pg -o name | 0 |
get queues -o name | 0 |
get q -o name | 0 |
get pc | 0 | system-cluster-critical
get priorityclasses -o name | 0 | priorityclass/system-node-critical
get leases -o name | 0 |
get crd | 0 | aitrainingjobs
get gadgets x | 1 | not found
get gadget/x | 1 | has no kind 'gadget'
get -A | 0 | NAMESPACE
get --all-namespaces | 0 | NAMESPACE
get -n default -o name | 0 |
get --namespace=default -o name | 0 |
get --wid | 2 | No such option
describe fit | 0 | State:
describe aitj fit | 0 | State:
describe aitj/fit | 0 | Sizes:
describe job fit | 0 | Spec:
describe ns default | 0 | Name:
describe -l team=a aitj | 0 | State:
describe nobody | 1 | not found
describe | 2 | say which objects
events | 0 |
events -A | 0 |
events --for fit | 0 |
events --for aitj/fit | 0 |
label aitj fit rank=1 | 0 | aitrainingjob/fit labeled
label aitj fit rank=2 | 1 | --overwrite
label aitj fit rank=2 --overwrite | 0 | labeled
label aitj fit rank- | 0 | labeled
label aitj fit | 2 | say which objects
annotate aitj fit note=x | 0 | annotated
annotate fit note=y --overwrite | 0 | annotated
wait aitj fit --for=create | 0 | condition met
wait fit --for=jsonpath={.metadata.name}=fit | 0 | condition met
wait fit --for=condition=Ready --timeout=50ms | 1 | did not hold
wait fit --for=phase=Running --timeout 50ms | 1 | did not hold
wait aitj nobody --for=delete | 0 |
wait fit --for=later | 2 | not a condition
wait fit | 2 | Missing option
explain fit | 0 | fit
explain aitj/fit -o json | 0 | "summary"
explain nobody | 1 | no job
history | 0 |
history -o json | 0 | [
history nobody | 1 | no record of a job
report nobody | 1 | no record of a job
report | 2 |
top | 0 | trainer
top -A | 0 | JOB
top --topology | 0 |
logs fit | 0 |
logs fit --tail 5 | 0 |
logs fit --tail=-1 | 0 |
logs job/fit | 0 |
logs fit --role trainer --index 0 | 0 |
logs fit -c aitj-trainer | 0 |
logs fit --since 10m | 0 |
logs fit --since=1h30m --timestamps -p | 0 |
logs fit --container nobody | 1 | its containers
logs fit --role boss | 1 | its roles: trainer
logs fit --index 9 | 1 | count from 0
logs nobody | 1 | no job nobody
logs pod/nobody | 1 | not found
logs -l team=zzz | 1 | no pod has the labels
logs | 2 | say whose logs
scale fit trainer=3 | 1 | edlPolicy to Manual
scale aitj/fit trainer=3 | 1 | edlPolicy to Manual
scale fit boss=3 | 1 | its roles: trainer
scale fit trainer | 2 | not a role and a size
scale fit | 2 | say which size
scale --replicas=3 aitj/fit | 1 | edlPolicy to Manual
scale aitj fit --replicas 3 | 1 | edlPolicy to Manual
scale fit=3 | 2 | say which job
queue list -o name | 0 |
queue create vision --weight 2 | 0 | queue/vision created
queue describe vision | 0 | vision
queue close vision | 0 | queue/vision closed
queue open vision | 0 | queue/vision open
queue create spare --reclaimable=false | 0 | queue/spare created
queue delete spare | 0 | queue/spare deleted
queue delete vision | 0 | queue/vision deleted
queue delete nobody | 1 |
queue | 2 | which of its commands?
run --print --name one -- true | 0 | name: one
run --print --queue q --priority p --label a=b -- true | 0 | queue: q
run --print --min 1 --max 4 --cpu 1 --memory 1Gi --gpu 1 -- true | 0 | edlPolicy: Auto
run --print --env A=1 --workdir /tmp --clean-env -- true | 0 | workingDir: /tmp
run --print --deadline 2027-01-01T06:00:00Z -- true | 0 | deadline: '2027-01-01T06:00:00Z'
run --print --restart 3 --time-limit 2h --framework pytorch --image x -- true | 0 | timeLimit: 7200
run --print --nproc-per-node 4 -- python train.py | 0 | swell.train.launch
run --print --reporting -- true | 0 | reporting: true
run --print --no-reporting -- true | 0 | reporting: false
run --print --checkpoints /ckpt -- true | 0 | hostPath
run --print --checkpoints disk:/ckpt -- true | 0 | claimName: disk
run --nproc-per-node none -- true | 2 | takes a number
run --print --name two --env-file /dev/null -- true | 0 | name: two
run --env NOT_SET_ANYWHERE -- true | 2 | not a variable
run --label x -- true | 2 | is no pair
run | 2 | give a manifest
run -- | 2 | no command after --
run python train.py | 2 | put -- before the command
run sleep 5 | 2 | put -- before the command
run train.py --lr 1 | 2 | put -- before the command
run --min 3 --max 2 -- true | 2 | lower --min
run -N 2 -- true | 2 | here it is: --min N
run --gres gpu:1 -- true | 2 | here it is: --gpu N
run --mem 1G -- true | 2 | here it is: --memory 4Gi
run --time 1h -- true | 2 | here it is: --time-limit 2h
run --time-limit soon -- true | 2 | write it like 15s
run --job-name x -- true | 2 | here it is: --name NAME
run --array 0-3 -- true | 2 | swell sweep --array
run --dependency afterok:3 -- true | 2 | here it is: --after JOB
run --partition q -- true | 2 | here it is: --queue NAME
run --dry-run=client -- true | 2 | here it is: --print
run -e A=1 -- true | 2 | here it is: --env NAME=VALUE
run --replicas 2 -- true | 2 | here it is: --min N
queue update x --weight 3 | 2 | swell edit queue NAME
cluster use x | 2 | swell use CONTEXT
apply -k . | 2 | kubectl kustomize
top --watch | 2 | by itself
logs fit --all-pods | 2 | all its pods
history --since yesterday | 2 | write it like 15s
sweep --print --name s a=1,2 -- true {a} | 0 | name: s-1
sweep --print --name s --array 0-9:3 -- true {index} | 0 | name: s-9
sweep --print --name s --parallel 1 a=1,2 -- true {a} | 0 | suspend: true
run --print --strict --name strict -- true | 0 | name: strict
sweep --print --max 2 --memory 1Gi --gpu 1 --image x --priority p a=1 -- true | 0 | 1Gi
sweep --print --framework pytorch --restart 2 --time-limit 1h --label a=b a=1 -- true | 0 | 3600
sweep --print --env-file /dev/null --clean-env --workdir /tmp a=1 -- true | 0 | workingDir: /tmp
sweep --print --name s --nproc-per-node 2 --checkpoints /ckpt a=1 -- python x.py | 0 | hostPath
sweep --print --name s --reporting a=1 -- python x.py | 0 | reporting: true
sweep --print --name s --strict --wait-forever --deadline 8h a=1 -- true | 0 | name: s-0
diff -R -f {file} | 0 |
annotate aitj/fit --list | 0 | note=y
uncordon -l no=where --dry-run=client -o name | 1 | no node has the labels
taint nodes nowhere a=b:NoSchedule --overwrite | 1 | not found
drain nowhere --save-seconds-max 1s | 1 | not found
sweep -- true | 2 | say which rows
sweep a=1 python train.py | 2 | not a parameter: 'python'
sweep --array x -- true | 2 | is no range of numbers
sweep --print a=1 -- true {b} | 2 | no parameter of the sweep is named b
sweep -f missing.csv -- true | 1 | No such file
sweep -f {binary} -- true | 1 | is not UTF-8
run --env-file {binary} -- true | 1 | is not UTF-8
patch fit --patch-file {binary} | 1 | is not UTF-8
create configmap x --from-env-file {binary} | 1 | is not UTF-8
get -o custom-columns-file={binary} | 1 | is not UTF-8
apply -f {binary} | 1 | is not UTF-8
sweep --array 0-9%2 -- true | 2 | --parallel 2
explain sweep/x | 2 | swell get sweep x
history sweep/x | 1 | no record of
report sweep/x | 1 | there is no record
get sweeps | 0 |
get sweep nobody | 1 | no sweep nobody
logs sweep/nobody | 1 | no sweep nobody
stop sweep/nobody | 1 | no sweep nobody
retry sweep/nobody --failed | 1 | no sweep nobody
retry nobody --all | 1 | no job nobody
events -o json | 0 | "kind": "List"
top -o json | 0 | "sizes"
api-resources -o json | 0 | "shortNames"
attach nobody | 1 | no job nobody
replace -f {file} | 0 | aitrainingjob/fit replaced
stop nobody | 1 | no job nobody
replay missing.json | 1 | No such file
replay missing.json --period 30 --cooldown 30 --first-size 1 --profiles x | 1 | apps.json
plan autoscale -f /dev/null --max-load 0.5 | 0 | 0 elastic roles
suspend nobody | 1 | no job nobody
resume nobody | 1 | no job nobody
stop fit --as Timeout | 2 | 'Timeout' is not one of
stop | 2 | Missing argument
fail nobody | 1 | no job nobody
preempt nobody --reason x | 1 | no job nobody
fail fit --reason enough | 0 | aitrainingjob/fit failed
cordon nobody | 1 | not found
uncordon nobody | 1 | not found
trust nobody | 1 | not found
trust | 2 | Missing argument
chaos kill-pod nobody | 1 | no pod nobody
delete | 2 | say which objects
delete aitj | 2 | give their names
delete fit -f {file} | 2 | say which objects
delete nobody | 1 | not found
delete nobody --ignore-not-found | 0 |
delete -f {file} --no-wait | 0 | aitrainingjob/fit deleted
delete aitj -l team=a --wait=false | 0 |
delete aitj --all --grace-period=0 | 0 |
delete pods --all --force | 0 |
delete cm --all --now | 0 |
use nowhere | 1 | contexts has no 'nowhere'
use - | 0 |
sbatch job.sh | 2 | swell run -- COMMAND
squeue -u me | 2 | swell get; why a job waits: swell explain JOB
scancel 3 | 2 | swell stop JOB
srun -N 2 python train.py | 2 | swell run -- COMMAND
salloc | 2 | swell run
sinfo | 2 | swell top nodes
sacct | 2 | swell history
scontrol show job 3 | 2 | swell describe JOB
sprio | 2 | swell explain JOB
sstat | 2 | swell top
qsub job.sh | 2 | swell run -- COMMAND
torchrun train.py | 2 | swell launch SCRIPT
config get-contexts | 2 | swell use CONTEXT
config use-context x | 2 | swell use CONTEXT
cluster-info | 2 | swell cluster
rollout status aitj/fit | 2 | swell wait JOB
rollout restart aitj/fit | 2 | swell replace
set image aitj/fit a=b | 2 | swell edit JOB
autoscale aitj fit --min 1 | 2 | minReplicas
expose pod x | 2 | swell port-forward
debug fit | 2 | swell exec
kustomize . | 2 | swell apply -f -
submit x | 2 | swell run -- COMMAND
ps | 2 | swell get pods
kill fit | 2 | swell stop JOB
status | 2 | swell describe JOB
gt pods | 2 | did you mean: swell get
discribe fit | 2 | did you mean: swell describe
"""
LINES = [
    tuple(part.strip() for part in line.split(" | "))
    for line in SCRIPT.replace(" |\n", " | \n").splitlines()
]


def test_script_is_long_enough() -> None:
    """A hundred and fifty and more, none of them twice except where the second answer differs."""
    assert len(LINES) >= 150


def test_every_line_of_the_script(swell: Swell) -> None:
    """Each line has its exit code and its words, a sentence with `error:` if it fails."""
    file = swell.file(MANIFEST, "fit.yaml")
    binary = swell.folder / "binary"
    binary.write_bytes(b"\x7fELF\xff\xfe\n")
    wrong = []
    for line, code, part in LINES:
        words = shlex.split(line.replace("{file}", file).replace("{binary}", str(binary)))
        takes_namespace = words[0] in NAMESPACED and not {"-A", "--all-namespaces", "-n"} & set(
            words
        )
        namespace = ["-n", swell.namespace] if takes_namespace else []
        at = words.index("--") if "--" in words else len(words)
        answer = swell(*words[:at], *namespace, *words[at:])
        shown = answer.out if answer.code == 0 else answer.err
        is_styled = answer.code == 0 or "error: " in answer.err or words[0] == "auth"
        if answer.code != int(code) or part not in shown or not is_styled:
            wrong.append(f"{line}: {answer.code}\n{answer.out}{answer.err}")

    assert wrong == []


NAMESPACED = frozenset(
    {
        "patch",
        "get",
        "describe",
        "delete",
        "apply",
        "replace",
        "logs",
        "events",
        "label",
        "annotate",
        "wait",
    }
    | {"explain", "scale", "fail", "preempt", "stop", "retry", "top", "attach"}
    | {"diff", "edit", "exec", "history", "report"}
)


def test_every_command_is_tried() -> None:
    """A command is in the script, unless it runs until it is stopped or needs a cluster's store."""
    elsewhere = {"up", "down", "launch", "backup", "restore", "check", "plan", "node", "operator"}
    elsewhere |= {"scheduler", "server", "uninstall", "user", "rotate", "dashboard"}
    tried = {line.split()[0] for line, *_ in LINES}

    assert {name for name, _, _ in COMMANDS} - elsewhere - tried == set()
