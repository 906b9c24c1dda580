"""The operator of TrainingJobs: master, pserver and trainer on built-in workloads. In this order:

- `settings`, `labels`: what may be chosen, and the names by which things are known;
- `decide` and the files it calls: what to do about a job. Pure;
- `controller`: what is followed, and the loop over it;
- `running`: all of it as services.

Functions of the original controller are found here:

    Reconcile                                         decide.reconcile
    setup                                             decide.setup
    createTrainingJob, createResource, createTrainer  creation.create_training_job
    parseToMaster, …Pserver, …Trainer                 parser.parse_to_master, …
    GetStatus                                         endings.get_status
    updateCRDStatus                                   status.update_status
    jobTotalRunning, masterRole…, trainer…            totals.job_total_running, …
    findFailedTrainerPods                             failures.find_failed_trainer_pods
    scale                                             scaling.scale
    initLabelOfPods, addLabelToPods,
    traceLabelOfPods, traceAddLabelToPods             indexing.trace_labels_of_pods
    releaseTrainer, releaseMasterRoles,
    releaseResource                                   release.release_trainer, …
    deleteTrainingJob, deleteResource, deleteTrainer  release.delete_training_job
"""
