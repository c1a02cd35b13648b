"""What one all_reduce costs the host, by the backend that is named, in a group of one rank: nobody is waited for."""

import sys
import time

import torch
import torch.distributed as dist
import weir.torch

dist.init_process_group(sys.argv[1])
torch.cuda.set_device(0)
b = torch.ones(3, device="cuda")
dist.broadcast(b, 0)  # by weir's default for the rest, nccl
t = torch.ones(4096, device="cuda", dtype=torch.bfloat16)


def cost(call):
    spent = []
    for _ in range(50):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(20):
            call()
        spent.append((time.perf_counter() - start) / 20)
    torch.cuda.synchronize()
    return 1e6 * sorted(spent)[25]


dist.all_reduce(t)
print(f"{sys.argv[1]}: dist.all_reduce {cost(lambda: dist.all_reduce(t)):.1f} us", end="")
if sys.argv[1] == "weir":
    group = dist.group.WORLD.weir
    print(f", group.all_reduce {cost(lambda: group.all_reduce(t)):.1f} us, by {group.backend('bfloat16', 8192, memory='cuda')}", end="")
print(flush=True)
dist.destroy_process_group()
