"""A network as a program that trains: `python -m hotlap.training.network_program NAME MODE [width=value …]`.

The module is made from the network's shape alone, with random weights and one batch of random tokens that is made once. It stands for
the network's kernels, not for what it learns.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from hotlap.training.conventions import network_of
from hotlap.training.stepping import MarkedSteps

INDUCTOR_MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


def main(argv: list[str]) -> None:
    """Trains until whoever measures ends it; of several ranks each its share of the batch, by DistributedDataParallel."""
    import torch

    from hotlap.training.network_module import NetworkModule

    name, mode, *given = argv
    network, batch, context = network_of(name, dict(pair.split("=", 1) for pair in given))
    torch.manual_seed(1)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model: Any = NetworkModule(network).to(device)
    rank, ranks = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    if ranks > 1:
        model, batch = _of_ranks(model, device), batch // ranks + (rank < batch % ranks)
    optimiser = torch.optim.AdamW(model.parameters(), 1e-4)
    run: Any = model
    if mode != "off":
        run = torch.compile(model, mode=mode) if mode in INDUCTOR_MODES else torch.compile(model, backend=mode)
    tokens = torch.randint(network.vocabulary, (batch, context + 1), device=device)
    while True:
        with MarkedSteps() as steps:
            logits = run(tokens[:, :-1])
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
            loss.backward()
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
            steps.step(tokens=batch * context, samples=batch)


def _of_ranks(model: Any, device: str) -> Any:
    import torch

    if device == "cuda":
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
        model = model.to("cuda")
    torch.distributed.init_process_group("nccl" if device == "cuda" else "gloo")
    return torch.nn.parallel.DistributedDataParallel(model)


if __name__ == "__main__":
    main(sys.argv[1:])
