"""The shape of our kinds, described once for validation and CRDs (ADR 5). In reading order:

- `model`: the schema type, and functions that build schemas.
- `shared`: parts that several kinds have in common, pod templates among them.
- `transitions`: which changes of a running job are refused.
- `training`: the part of a status that a program's reports fill in.
- `aitrainingjob_status`: the status of AITrainingJob.
- `aitrainingjob`: AITrainingJob.
- `trainingjob`: TrainingJob.
- `scheduling`: PodGroup and Queue.
- `topology`: HyperNode.
- `definitions`: the names, versions and printer columns of each kind.
"""
