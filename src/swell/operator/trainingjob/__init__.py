"""The TrainingJob kind. Its master and pservers are ReplicaSets, its trainers an Indexed Job.

In reading order:

- `settings`, `labels`: the operator's choices, and the names of a job's objects.
- `kind`: the kind as the framework runs it: informers, snapshots, rules.
- `snapshot`: the input of a decision.
- `decide`: the plan for one job at one moment. It calls all of the following.
- `recovery`: the parts of a lost or damaged status, from the job's objects.
- `sizes`: the number of trainers, and whether everything runs.
- `departures`: how trainers save before a job shrinks.
- `suspension`: how a job gives everything back for a while.
- `endings`: whether the job ends, how, and why.
- `phases`: the phase machine.
- `status`: the new status, its write, and its events.
- `metrics`: jobs by phase, and resizes.
- `children`: the workloads and the group that are created.
- `addresses`: the addresses by which PaddlePaddle's processes find each other.
- `membership`: the parts by which trainers train together, where a job asks for them.
- `pods`: the pod template of each role, and the pods' index labels.
- `environment`: how a pod's variables are made.
- `cleanup`: the release of pods, and the deletion of everything.

Functions of the original controller are found here:

    Reconcile                                         decide.decide
    setup                                             decide.setup
    createTrainingJob, createResource, createTrainer  children.create_training_job
    parseToMaster, …Pserver, …Trainer                 children.parse_to_master, …
    GetStatus                                         endings.get_status
    updateCRDStatus                                   status.update_status
    jobTotalRunning, masterRole…, trainer…            sizes.job_total_running, …
    findFailedTrainerPods                             endings.find_failed_trainer_pods
    scale                                             sizes.scale
    initLabelOfPods, addLabelToPods,
    traceLabelOfPods, traceAddLabelToPods             pods.trace_labels_of_pods
    releaseTrainer, releaseMasterRoles,
    releaseResource                                   cleanup.release_trainer, …
    deleteTrainingJob, deleteResource, deleteTrainer  cleanup.delete_training_job
"""
