"""Times NCCL's all-reduce as the push plugin's tests time theirs: nccl.py RANKS, a GPU for each."""
import os
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

CHAIN = 122


def microseconds(size):
    """Median time of one all-reduce of `size` bytes of bfloat16 in a graph of CHAIN."""
    x = torch.zeros(size // 2, dtype=torch.bfloat16, device="cuda")
    for _ in range(3):
        dist.all_reduce(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(CHAIN):
            dist.all_reduce(x)
    times = []
    for _ in range(15):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        dist.barrier()
        torch.cuda.synchronize()
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) * 1000 / CHAIN)
    return sorted(times[3:])[6]


def main(rank, world):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29555", RANK=str(rank), WORLD_SIZE=str(world))
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
    for size in (1 << k for k in range(10, 23)):
        us = microseconds(size)
        if rank == 0:
            print(f"{size:8d} B {us:8.2f} µs", flush=True)
    dist.barrier()
    os._exit(0)  # graphs hold the communicator: tearing down hangs


if __name__ == "__main__":
    mp.spawn(main, (int(sys.argv[1]),), nprocs=int(sys.argv[1]))
