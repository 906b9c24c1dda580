"""PyTorch: process groups that come and go within one process. Its files, in reading order:

- `framework`: a torch module with its optimizer, as `Elastic` uses them.
- `process_group`: forming, aborting and forgetting a group of `torch.distributed`.
- `gloo_sockets`: ends gloo's collectives by shutting its connections down below it.
- `modules`: replicated modules in DDP or a wrapper of the user's own.
- `sharded`: modules that FSDP2 shards anew for every group, with copies at neighbours.
- `local_updates`: updates of sharded parameters, done on the shards themselves.
- `updates`: updates that all members apply or none: what they may be.
- `weighting`: gradients weighted by samples, measured, and the learning rate's factor.
- `tensors`: tensors as bytes in host memory.
"""
