"""What to do about a TrainingJob. Pure: a world in, a plan out.

Who knows the original controller finds its functions here:

    Reconcile                                         reconcile.reconcile
    setup                                             reconcile.setup
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
