"""Times torch.distributed's all_reduce of float32, sum, with the backend gloo on the CPU.

usage: torch_gloo.py RANK WORLD STORE_FOLDER BYTES SECONDS

Trials and output are those of mpi.c. all_reduce works in place, so it is checked on real inputs and timed on zeros.
"""

import json
import os
import sys
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")

import torch
import torch.distributed as dist

TRIALS = 5


def main():
    rank, world, folder, size, seconds = sys.argv[1:6]
    rank, world, size, seconds = int(rank), int(world), int(size), float(seconds)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=world)
    data = torch.zeros(size // 4)

    def slowest(value):
        t = torch.tensor([value], dtype=torch.float64)
        dist.all_reduce(t, op=dist.ReduceOp.MAX)
        return t.item()

    def spent(calls):
        dist.barrier()
        start = time.perf_counter()
        for _ in range(calls):
            dist.all_reduce(data)
        return slowest((time.perf_counter() - start) / calls)

    def inputs(r):
        return ((torch.arange(len(data)) % 1019 * 7 + r * 13) % 101).float()

    def wrong():
        data.copy_(inputs(rank))
        dist.all_reduce(data)
        return int((data != sum(inputs(r) for r in range(world))).sum())

    bad = wrong()
    data.zero_()
    calls = 1
    each = spent(calls)
    while each * calls < 1e-3 and calls < 4096:
        calls *= 4
        each = spent(calls)
    calls = max(1, min(400000, int(seconds / TRIALS / each)))
    trials = [spent(calls) * 1e6 for _ in range(TRIALS)]
    bad = slowest(bad + wrong())
    if rank == 0:
        print(json.dumps({"bytes": size, "iterations": calls * TRIALS, "wrong": int(bad), "trials": trials}), flush=True)
    dist.barrier()
    os._exit(0)  # taking the group down can hang


main()
