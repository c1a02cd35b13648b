"""What the backend does on a GPU, for ranks that may share one. Prints "right" at the end, and the cost of a call."""

import os
import sys
import time

import torch
import torch.distributed as dist
import weir.torch

dist.init_process_group("cpu:weir,cuda:weir", pg_options=weir.torch.Options(others="gloo"))
rank, size = dist.get_rank(), dist.get_world_size()
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
want = size * (size - 1) / 2


def new(n, dtype=torch.float32):
    return torch.full((n,), float(rank), device="cuda", dtype=dtype)


for dtype in (torch.float32, torch.float16, torch.bfloat16):
    for n in (1, 1000, 1 << 20):
        t = new(n, dtype)
        dist.all_reduce(t)
        assert (t == want).all(), (dtype, n, t)
print("eager", dist.group.WORLD.weir.backend("float32", 4000, memory="cuda"), flush=True)

# On another stream, asynchronously, waited for on the current one.
side = torch.cuda.Stream()
t = new(1 << 20)
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    t.add_(1)
    work = dist.all_reduce(t, async_op=True)
work.wait()
t.mul_(2)
assert (t == 2 * (want + size)).all(), t

# A matrix that does not lie in one piece, an empty tensor, and one on the CPU in the same group.
m = torch.arange(6.0, device="cuda").reshape(2, 3).t()
dist.all_reduce(m)
assert m[1, 0] == size and m[0, 1] == 3 * size, m
dist.all_reduce(torch.empty(0, device="cuda"))
c = torch.full((5,), float(rank))
dist.all_reduce(c)
assert (c == want).all()
b = new(3)
dist.broadcast(b, size - 1)
assert (b == size - 1).all()
group = dist.new_group(list(range(size))[::-1])
t = new(10)
dist.all_reduce(t, op=dist.ReduceOp.MAX, group=group)
assert (t == size - 1).all()

# The Python API, out of place.
a, out = new(100), new(100)
dist.group.WORLD.weir.all_reduce(a, "sum", out=out)
assert (out == want).all() and (a == rank).all()

# In a graph, replayed on other values.
x, y = new(4096), torch.empty(4096, device="cuda")
graph = torch.cuda.CUDAGraph()
torch.cuda.synchronize()
with torch.cuda.graph(graph):
    y.copy_(x)
    for _ in range(3):
        dist.all_reduce(y)
        y.div_(size)
for value in (1.0, 5.0, -3.0):
    x.fill_(value + rank)
    graph.replay()
    assert torch.allclose(y, torch.full_like(y, value + (size - 1) / 2)), y
print("captured", dist.group.WORLD.weir.backend("float32", 16384, memory="cuda", captured=True), flush=True)

# A class that nobody decided before the capture is a clear error.
try:
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        dist.all_reduce(torch.zeros(4, device="cuda", dtype=torch.int32))
    sys.exit("a capture of an undecided class did not fail")
except weir.Invalid as error:
    assert "Warm" in str(error) or "weir_warm" in str(error), error
except weir.Error as error:
    assert "has not been decided" in str(error), error

t = new(4096)
torch.cuda.synchronize()
dist.barrier()
for name, call in {
    "dist.all_reduce": lambda: dist.all_reduce(t),
    "group.all_reduce": lambda: dist.group.WORLD.weir.all_reduce(t),
}.items():
    spent = []
    for _ in range(300):
        start = time.perf_counter()
        call()
        spent.append(time.perf_counter() - start)
        torch.cuda.synchronize()
    print(f"rank {rank}: {name} returns after {1e6 * sorted(spent)[150]:.1f} us (median of 300)", flush=True)
dist.group.WORLD.weir.check()
dist.barrier()
dist.destroy_process_group()
sys.stdout.write("right\n")
