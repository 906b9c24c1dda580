"""AITrainingJobs from submission to their end, on the embedded cluster and on a real one."""
