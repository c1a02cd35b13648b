"""A program that all-reduces with PyTorch and, as vLLM and SGLang do, with ctypes; it knows nothing of Weir.

Rank 0 prints, one a line, what came out: a name and a digest of the bits, which must be the same whoever has summed. The last
line is the host's time of a call in microseconds. With "fork" as argument it first forks its ranks, as vLLM does. If there are
fewer GPUs than ranks they share them, which NCCL allows to ranks of different hosts.
"""

import ctypes
import hashlib
import os
import statistics
import subprocess
import sys
import time

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset

# What vLLM and SGLang bind, all at once and before anything else; a name that is missing is the end of it.
BOUND = """ncclGetErrorString ncclGetVersion ncclGetUniqueId ncclCommInitRank ncclCommInitRankConfig ncclAllReduce ncclAllGather
ncclReduce ncclReduceScatter ncclSend ncclRecv ncclBroadcast ncclCommDestroy ncclCommAbort ncclGroupStart ncclGroupEnd
ncclCommWindowRegister ncclCommWindowDeregister""".split()


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * 128)]


def say(rank, name, tensor):
    if rank == 0:
        digest = hashlib.sha256(tensor.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes()).hexdigest()
        print(name, digest[:16], flush=True)


def data(rank, n, dtype):
    g = torch.Generator().manual_seed(rank + n)
    return torch.randn(n, generator=g).to(dtype).cuda()


def sums(rank):
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64):
        for n in (1, 1000, 1 << 20):
            t = data(rank, n, dtype)
            dist.all_reduce(t)
            say(rank, f"torch {dtype} {n}", t)
    t = data(rank, 1000, torch.float32)
    dist.all_reduce(t, dist.ReduceOp.MAX)
    say(rank, "torch max", t)
    parts = [torch.empty_like(t) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, t)
    say(rank, "torch all_gather", torch.cat(parts))


def ddp(rank):
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10)).cuda()
    model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y = data(rank, 64 * 512, torch.float32).view(512, 64).cpu(), torch.arange(512) % 10
    workers = DataLoader(TensorDataset(x, y), batch_size=64, num_workers=2)  # forked when communicators exist
    for _ in range(2):
        for xs, ys in workers:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(xs.cuda()), ys.cuda()).backward()
            optimizer.step()
    say(rank, "ddp", torch.cat([p.flatten() for p in model.parameters()]))


def graph(rank):
    t = data(rank, 7168, torch.bfloat16)
    kept = t.clone()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            dist.all_reduce(t)
    torch.cuda.synchronize()
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        for _ in range(4):
            dist.all_reduce(t)
            t.mul_(0.5)
    for i in range(3):
        t.copy_(kept)
        g.replay()
        torch.cuda.synchronize()
        say(rank, f"graph replay {i}", t)


def pynccl(rank, world):
    library = ctypes.CDLL("libnccl.so.2")
    f = {name: getattr(library, name) for name in BOUND}
    f["ncclCommInitRank"].argtypes = [ctypes.POINTER(ctypes.c_void_p), ctypes.c_int, UniqueId, ctypes.c_int]
    f["ncclAllReduce"].argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
    f["ncclCommDestroy"].argtypes = [ctypes.c_void_p]
    version = ctypes.c_int()
    assert f["ncclGetVersion"](ctypes.byref(version)) == 0 and version.value > 20000
    unique = UniqueId()
    if rank == 0:
        assert f["ncclGetUniqueId"](ctypes.byref(unique)) == 0
    box = [bytes(unique)]
    dist.broadcast_object_list(box, src=0)
    ctypes.memmove(ctypes.byref(unique), box[0], 128)
    comm = ctypes.c_void_p()
    assert f["ncclCommInitRank"](ctypes.byref(comm), world, unique, rank) == 0
    stream = torch.cuda.current_stream()

    def all_reduce(t, op=0):
        r = f["ncclAllReduce"](t.data_ptr(), t.data_ptr(), t.numel(), 7, op, comm, stream.cuda_stream)
        assert r == 0, r

    t = data(rank, 7168, torch.float32)
    all_reduce(t)
    torch.cuda.synchronize()
    say(rank, "pynccl", t)
    g = torch.cuda.CUDAGraph()
    kept = t.clone()
    with torch.cuda.graph(g):
        stream = torch.cuda.current_stream()
        all_reduce(t)
    t.copy_(kept)
    g.replay()
    torch.cuda.synchronize()
    say(rank, "pynccl graph", t)
    g.reset()
    if shared(world):
        status(rank)
        return
    stream = torch.cuda.current_stream()
    for name, op in (("sum", 0), ("max", 2)):
        took = []
        for i in range(1200):
            start = time.perf_counter_ns()
            all_reduce(t, op)
            took.append(time.perf_counter_ns() - start)
            if i % 20 == 19:
                torch.cuda.synchronize()
        if rank == 0:
            print(f"cost {name} {statistics.median(took[200:]) / 1000:.2f}", flush=True)
    status(rank)
    assert f["ncclCommDestroy"](comm) == 0


def status(rank):
    dist.barrier()
    if rank == 0 and os.environ.get("WEIR_AGENT_SOCKET"):
        out = subprocess.run(["weir", "status"], capture_output=True, text=True, env={k: v for k, v in os.environ.items() if k != "LD_PRELOAD"})
        print(*("status " + line for line in (out.stdout + out.stderr).splitlines()), sep="\n", flush=True)
    dist.barrier()


def shared(world):
    return torch.cuda.device_count() < world


def main(rank, world):
    subprocess.run("true; echo | cat", shell=True, check=True)  # a shell that inherits what is preloaded
    if shared(world):
        os.environ.update(NCCL_HOSTID=f"host {rank}", NCCL_NET="Socket", NCCL_SOCKET_IFNAME="lo")
    torch.cuda.set_device(rank % torch.cuda.device_count())
    dist.init_process_group("nccl", rank=rank, world_size=world)
    sums(rank)
    ddp(rank)
    graph(rank)
    half = dist.new_group([0])
    if rank == 0:
        t = torch.ones(5, device="cuda")
        dist.all_reduce(t, group=half)
    status(rank)
    pynccl(rank, world)
    if shared(world):
        sys.stdout.flush()
        time.sleep(1)  # what this rank has sent may still be on its way
        os._exit(0)  # NCCL has been seen to wait for ever when such a communicator is destroyed
    if "leave" not in sys.argv:
        dist.destroy_process_group()


if __name__ == "__main__":
    world = int(os.environ.get("NRANKS", "2"))
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29533")
    if "fork" in sys.argv:
        children = []
        for rank in range(world):
            pid = os.fork()
            if pid == 0:
                main(rank, world)
                sys.exit(0)
            children.append(pid)
        sys.exit(max(os.waitpid(pid, 0)[1] for pid in children) != 0)
    main(int(os.environ["WEIR_RANK"] if "WEIR_RANK" in os.environ else os.environ["RANK"]), world)
