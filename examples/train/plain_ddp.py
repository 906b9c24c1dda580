"""A plain DDP script: a small network on made-up data, for torchrun."""

import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

torch.manual_seed(0)
inputs = torch.randn(20_000, 32)
data = TensorDataset(inputs, inputs.sum(1, keepdim=True).sin())
net = torch.nn.Sequential(torch.nn.Linear(32, 256), torch.nn.Tanh(), torch.nn.Linear(256, 1))
dist.init_process_group("gloo")
model = DistributedDataParallel(net)
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 100)
criterion = torch.nn.MSELoss()
sampler = DistributedSampler(data, shuffle=True)
loader = DataLoader(data, batch_size=256 // dist.get_world_size(), sampler=sampler)
for epoch in range(int(os.environ.get("EPOCHS", "3"))):
    sampler.set_epoch(epoch)
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        scheduler.step()
print(f"loss {loss.item():.4f}")
