"""Trains a small network on handwritten digits with DistributedDataParallel, its gradients all-reduced by Weir.

    apt-get install python3-torch python3-sklearn       # for PyTorch and the digits
    ./task build cabi
    PYTHONPATH=sdk/python PATH=$PWD/bin:$PATH weir run -n 2 -- python3 examples/pytorch/train.py

With `torchrun --nproc_per_node 2` in place of `weir run -n 2 --` rank 0 starts the agent.
"""

import argparse
import gzip
import importlib.util
import os

import numpy
import torch
import torch.distributed as dist
import weir.torch  # torch 2.5 and newer do so by themselves when the package is installed


def digits():
    """1797 images of 8 by 8, and what they show. They come with scikit-learn, which is not imported."""
    path = os.environ.get("DIGITS")
    if path is None:
        path = os.path.join(os.path.dirname(importlib.util.find_spec("sklearn").origin), "datasets/data/digits.csv.gz")
    with gzip.open(path, "rt") as text:
        table = numpy.loadtxt(text, delimiter=",", dtype="float32")
    return torch.from_numpy(table[:, :-1] / 16), torch.from_numpy(table[:, -1]).long()


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--backend", default="weir")
    arguments.add_argument("--others", help="the backend for what Weir does not do")
    arguments.add_argument("--device", default="cpu")
    arguments.add_argument("--epochs", type=int, default=8)
    arguments.add_argument("--save", help="where rank 0 writes the parameters")
    a = arguments.parse_args()

    torch.set_num_threads(1)
    options = weir.torch.Options(others=a.others) if a.others else None
    dist.init_process_group(a.backend, pg_options=options)
    rank, size = dist.get_rank(), dist.get_world_size()

    torch.manual_seed(7)
    images, labels = (x.to(a.device) for x in digits())
    model = torch.nn.Sequential(torch.nn.Linear(64, 100), torch.nn.ReLU(), torch.nn.Linear(100, 10)).to(a.device)
    parallel = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(parallel.parameters(), lr=0.2, momentum=0.9)
    for _ in range(a.epochs):
        for first in range(0, 1500 - 60 * size + 1, 60 * size):
            mine = slice(first + 60 * rank, first + 60 * (rank + 1))
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(parallel(images[mine]), labels[mine]).backward()
            optimizer.step()
    right = (model(images[1500:]).argmax(1) == labels[1500:]).float().mean().item()

    by = dist.group.WORLD.weir.backend("float32", 4096, memory=a.device.split(":")[0]) if a.backend == "weir" else a.backend
    print(f"rank {rank} of {size}: {100 * right:.1f} % of the unseen digits are right, all-reduced by {by}")
    if a.save and rank == 0:
        torch.save({name: value.cpu() for name, value in model.state_dict().items()}, a.save)
    dist.destroy_process_group()


main()
