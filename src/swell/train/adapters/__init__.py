"""Adapters for the training loops of other libraries, for use under `swell launch`.

A loop that is not ours cannot keep its process through a change of the group: the launcher starts
it again. The adapters make that cost nothing: they save at a step that all workers agree on, end
the process as one that leaves, and report progress. Each is imported when it is first used.

- `departure`: an end at a step that all workers agree on.
- `progress`: the report, written into the file that the launcher reads.
- `huggingface`: `HFCallback`, for the Trainer of transformers.
- `lightning`: `LightningPlugin`, for the Trainer of Lightning.
"""
