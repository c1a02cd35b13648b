"""Times NCCL called directly and PyTorch's symmetric-memory all-reduces in GPU memory, as weir bench times Weir's backends.

Prints a line of JSON for each column and size: {"column", "bytes", "trials": [µs per call, of the slowest rank], "wrong"}.
Results are sums of small whole numbers, exact in every type.
"""

import argparse
import ctypes
import json
import os
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

TYPES = {"float32": (torch.float32, 7), "float16": (torch.float16, 6), "bfloat16": (torch.bfloat16, 9)}  # NCCL's numbers
SUM = 0
SYMMETRIC_MOST = 16 << 20  # bytes; what is larger is not what these are for


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_char * 128)]


class Direct:
    """ncclAllReduce from a loop in C, out of place, on memory that is not registered."""

    name = "NCCL"

    def __init__(self, a, rank, meet):
        self.lib, self.loops = ctypes.CDLL(a.nccl), ctypes.CDLL(a.loops)
        self.loops.direct_enqueue.restype = ctypes.c_long
        unique = UniqueId()
        if rank == 0:
            self.check(self.lib.ncclGetUniqueId(ctypes.byref(unique)))
        box = [bytes(ctypes.string_at(ctypes.byref(unique), 128))]
        dist.broadcast_object_list(box, 0, group=meet)
        ctypes.memmove(ctypes.byref(unique), box[0], 128)
        self.comm = ctypes.c_void_p()
        self.check(self.lib.ncclCommInitRank(ctypes.byref(self.comm), a.world, unique, rank))
        self.entry = ctypes.cast(self.lib.ncclAllReduce, ctypes.c_void_p)

    @staticmethod
    def check(code):
        if code:
            raise RuntimeError(f"NCCL: error {code}")

    def buffers(self, count, dtype):
        return torch.empty(count, dtype=dtype, device="cuda"), torch.empty(count, dtype=dtype, device="cuda")

    def calls(self, src, dst, n):
        number = next(v for t, v in TYPES.values() if t == src.dtype)
        took = self.loops.direct_enqueue(
            self.entry, ctypes.c_void_p(src.data_ptr()), ctypes.c_void_p(dst.data_ptr()), ctypes.c_size_t(src.numel()), number, SUM,
            self.comm, ctypes.c_void_p(torch.cuda.current_stream().cuda_stream), ctypes.c_long(n))
        if took < 0:
            raise RuntimeError("ncclAllReduce failed")
        return dst


class Symmetric:
    """PyTorch's own kernels on its symmetric memory: one-shot out of place, two-shot in place. Called from Python."""

    def __init__(self, name):
        self.name = name

    def buffers(self, count, dtype):
        import torch.distributed._symmetric_memory as symmetric

        self.group = dist.group.WORLD.group_name
        src = symmetric.empty(count, dtype=dtype, device="cuda")
        symmetric.rendezvous(src, self.group)
        return src, torch.empty(count, dtype=dtype, device="cuda")

    def calls(self, src, dst, n):
        ops = torch.ops.symm_mem
        if self.name == "torch one-shot":
            for _ in range(n):
                ops.one_shot_all_reduce_out(src, "sum", self.group, dst)
            return dst
        for _ in range(n):
            ops.two_shot_all_reduce_(src, "sum", self.group)
        return src


class Timer:
    def __init__(self, a, rank, meet):
        self.a, self.rank, self.meet = a, rank, meet

    def slowest(self, values):
        t = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(t, op=dist.ReduceOp.MAX, group=self.meet)
        return t.tolist()

    def inputs(self, rank, count, dtype):
        return (torch.arange(count, device="cuda") % 5 + rank % 3).to(dtype)

    def wrong(self, column, src, dst):
        src.copy_(self.inputs(self.rank, src.numel(), src.dtype))
        dst.fill_(float("nan"))
        torch.cuda.synchronize()
        dist.barrier(group=self.meet)
        out = column.calls(src, dst, 1)
        want = sum(self.inputs(r, src.numel(), torch.float32) for r in range(self.a.world)).to(src.dtype)
        torch.cuda.synchronize()
        return int((out != want).sum())

    def column(self, column, size):
        dtype = TYPES[self.a.type][0]
        src, dst = column.buffers(size // dtype.itemsize, dtype)
        self.measured = False
        bad = self.wrong(column, src, dst)
        self.measured = True
        src.zero_()
        run = self.graph(column, src, dst) if self.a.graph else self.eager(column, src, dst)
        torch.cuda.synchronize()
        dist.barrier(group=self.meet)
        column.calls(src, dst, 1)
        trials = self.slowest([run() for _ in range(self.a.blocks)])
        bad = self.slowest([float(bad + self.wrong(column, src, dst))])[0]
        if self.rank == 0:
            print(json.dumps({"column": column.name, "bytes": size, "trials": trials, "wrong": int(bad)}), flush=True)

    def eager(self, column, src, dst):
        stream = torch.cuda.current_stream()

        def block(n):
            begin = time.perf_counter()
            column.calls(src, dst, n)
            stream.synchronize()
            return (time.perf_counter() - begin) * 1e6 / n

        block(5)
        n = 1
        while True:
            dist.barrier(group=self.meet)
            each = self.slowest([block(n)])[0]
            if each * n > 1000 or n >= 4096:
                break
            n *= 4
        n = max(1, int(self.a.seconds * 1e6 / each / self.a.blocks))
        return lambda: block(n)

    def graph(self, column, src, dst):
        column.calls(src, dst, 5)
        torch.cuda.synchronize()
        self.held = torch.cuda.CUDAGraph()  # lives until the next size
        with torch.cuda.graph(self.held):
            column.calls(src, dst, self.a.graph)
        self.held.replay()
        torch.cuda.synchronize()
        stream, graph = torch.cuda.current_stream(), self.held

        def block():
            begin = time.perf_counter()
            for _ in range(self.a.launches):
                graph.replay()
            stream.synchronize()
            return (time.perf_counter() - begin) * 1e6 / (self.a.graph * self.a.launches)

        return block


def measure(timer, column, size):
    """Leaves out what PyTorch refuses, on all ranks alike: its kernels take certain multiples only."""
    try:
        timer.column(column, size)
    except RuntimeError as e:
        if not isinstance(column, Symmetric) or timer.measured:
            raise
        print(f"{column.name}: {size} bytes: {str(e).splitlines()[0]}", file=sys.stderr, flush=True)


def main(rank, a, store):
    torch.cuda.set_device(rank)
    dist.init_process_group("cpu:gloo,cuda:nccl", init_method=f"file://{store}", rank=rank, world_size=a.world)
    timer = Timer(a, rank, dist.new_group(backend="gloo"))
    columns = [Direct(a, rank, timer.meet)]
    if not a.no_symmetric:
        columns += [Symmetric("torch one-shot"), Symmetric("torch two-shot")]
    with torch.cuda.stream(torch.cuda.Stream()):
        for column in columns:
            for size in a.sizes:
                if column is columns[0] or size <= SYMMETRIC_MOST:
                    measure(timer, column, size)
    dist.barrier(group=timer.meet)
    os._exit(0)  # graphs hold communicators, whose end can hang


if __name__ == "__main__":
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--world", type=int, required=True)
    p.add_argument("--nccl", required=True, help="path of the library")
    p.add_argument("--loops", required=True, help="path of direct.so")
    p.add_argument("--type", choices=TYPES, default="bfloat16")
    p.add_argument("--graph", type=int, default=0, help="calls in a graph; 0: eager")
    p.add_argument("--launches", type=int, default=1)
    p.add_argument("--blocks", type=int, default=5)
    p.add_argument("--seconds", type=float, default=0.05)
    p.add_argument("--no-symmetric", action="store_true")
    p.add_argument("sizes", type=int, nargs="+")
    a = p.parse_args()
    store = f"/tmp/torch_cuda.{os.getpid()}"
    try:
        mp.spawn(main, (a, store), nprocs=a.world)
    finally:
        if os.path.exists(store):
            os.remove(store)
