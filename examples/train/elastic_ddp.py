"""A plain DDP script: a small network on made-up data, for torchrun."""

import os

import torch
from torch.utils.data import TensorDataset

from swell.train import Elastic

torch.manual_seed(0)
inputs = torch.randn(20_000, 32)
data = TensorDataset(inputs, inputs.sum(1, keepdim=True).sin())
net = torch.nn.Sequential(torch.nn.Linear(32, 256), torch.nn.Tanh(), torch.nn.Linear(256, 1))
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 100)
model = Elastic(net, optimizer, scheduler, checkpoint=os.environ.get("CHECKPOINT"))
criterion = torch.nn.MSELoss()
for x, y in model.batches(data, batch_size=256, epochs=int(os.environ.get("EPOCHS", "3"))):
    with model.step():
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        scheduler.step()
print(f"loss {loss.item():.4f}")
