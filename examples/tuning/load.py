"""A small network whose batches are decompressed as they are loaded: a process that loads beside it may hide that."""
import argparse
import zlib

import numpy as np
import torch

import hotlap

SAMPLES, BATCH, WIDTH = 1024, 32, 64
parser = argparse.ArgumentParser()
parser.add_argument("--workers", type=int, default=0)
workers = parser.parse_args().workers


class Packed(torch.utils.data.Dataset):
    """Samples that are unpacked when they are asked for."""

    def __init__(self):
        random = np.random.default_rng(1)
        self.packed = [zlib.compress(random.integers(0, 9, 100_000, dtype=np.uint8).tobytes(), 1) for _ in range(16)]

    def __len__(self):
        return SAMPLES

    def __getitem__(self, place):
        data = np.frombuffer(zlib.decompress(self.packed[place % 16]), np.uint8)
        return torch.from_numpy(data[place % 97 :: 1563][:WIDTH].astype(np.float32) / 9)


torch.manual_seed(1)
torch.set_num_threads(1)
first, second, third = torch.nn.Linear(WIDTH, 512), torch.nn.Linear(512, 512), torch.nn.Linear(512, WIDTH)
net = torch.nn.Sequential(first, torch.nn.ReLU(), second, torch.nn.ReLU(), third)
optimiser = torch.optim.SGD(net.parameters(), lr=0.01)
with hotlap.steps() as steps:
    for batch in torch.utils.data.DataLoader(Packed(), BATCH, num_workers=workers):
        for _ in range(4):
            optimiser.zero_grad()
            loss = torch.nn.functional.mse_loss(net(batch), batch)
            loss.backward()
            optimiser.step()
        steps.step(samples=len(batch))
print("loss", loss.item())
