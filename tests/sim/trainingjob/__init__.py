"""TrainingJobs under simulated faults, on the built-in controllers of the embedded cluster."""
