"""The backend "weir" of torch.distributed on the CPU, for 2 ranks. With "again" the group is made a second and third time."""

import sys

import torch
import torch.distributed as dist
import weir.torch


def raises(kind, words, call):
    try:
        call()
    except Exception as error:
        assert isinstance(error, kind) and words in str(error), f"{type(error).__name__}: {error}; want {kind.__name__} with {words}"
    else:
        sys.exit(f"no error; want {kind.__name__} with {words}")


dist.init_process_group("weir")
rank, size = dist.get_rank(), dist.get_world_size()
assert size == 2 and dist.get_backend() == "weir"
O = dist.ReduceOp

# all_reduce is Weir's.
for op, want in ((O.SUM, 3), (O.PRODUCT, 2), (O.MIN, 1), (O.MAX, 2), (O.AVG, 1.5)):
    t = torch.full((4, 5), rank + 1.0)
    dist.all_reduce(t, op=op)
    assert (t == want).all(), (op, t)
t = torch.full((3,), rank + 1.0, dtype=torch.bfloat16)
work = dist.all_reduce(t, async_op=True)
work.wait()
assert work.is_completed() and (t == 3).all()
class Sync:  # what newer versions of torch pass for a call without async_op
    reduceOp, asyncOp = O.SUM, False


dist.group.WORLD.allreduce([t], Sync()).wait()
assert (t == 6).all()
assert dist.all_reduce(t, async_op=True).get_future().wait()[0] is not None and (t == 12).all()
m = torch.arange(6.0).reshape(2, 3).t()
dist.all_reduce(m)
assert m[1, 0] == 2 and m[0, 1] == 6
dist.all_reduce(torch.empty(0))
z = torch.complex(torch.tensor([rank + 1.0]), torch.tensor([2.0]))
dist.all_reduce(z)
assert z.item() == 3 + 4j
leaf = torch.ones(2, requires_grad=True)
with torch.no_grad():
    dist.all_reduce(leaf)
assert leaf.tolist() == [2, 2]
assert dist.group.WORLD.weir.backend("float32", 80) == "shm-flat"

# What Weir has not is gloo's.
i = torch.tensor([5 + rank], dtype=torch.int32)
dist.all_reduce(i, op=O.BAND)
assert i.item() == 4
b = torch.tensor([float(rank)])
dist.broadcast(b, 1)
assert b.item() == 1
parts = [torch.zeros(1) for _ in range(size)]
dist.all_gather(parts, torch.tensor([float(rank)]))
assert [p.item() for p in parts] == [0, 1]
dist.reduce(b, 0)
if rank == 0:
    dist.send(torch.tensor([9.0]), 1)
else:
    dist.recv(b, 0)
    assert b.item() == 9
objects = [None, None]
dist.all_gather_object(objects, {"rank": rank})
assert objects == [{"rank": 0}, {"rank": 1}]
dist.barrier()

# Groups.
pair = dist.new_group([0, 1])
x = torch.ones(3, dtype=torch.int64)
dist.all_reduce(x, group=pair)
assert x.tolist() == [2, 2, 2] and dist.get_backend(pair) == "weir"
alone = [dist.new_group([r]) for r in range(size)][rank]
dist.all_reduce(x, group=alone)
assert x.tolist() == [2, 2, 2]

# Ranks that disagree get Weir's words.
raises(weir.GroupFailed, "disagree", lambda: dist.all_reduce(torch.ones(1 + rank), group=pair))
dist.all_reduce(x)
assert x.tolist() == [4, 4, 4]

if "again" in sys.argv:
    dist.destroy_process_group()
    dist.init_process_group("weir", pg_options=weir.torch.Options(others=None))
    dist.all_reduce(x)
    assert x.tolist() == [8, 8, 8]
    raises(weir.Error, "Weir does no broadcast for cpu tensors", lambda: dist.broadcast(x, 0))
    raises(weir.Error, "all_reduce of this type or op", lambda: dist.all_reduce(x, op=O.BOR))
    dist.barrier()
    dist.destroy_process_group()
    dist.init_process_group("weir")
    dist.broadcast(b, 0)
    raises(weir.Invalid, "pg_options", lambda: dist.new_group([0, 1], pg_options=3))
    raises(weir.Invalid, "'nccl' for cpu", lambda: weir.torch.Options(others={"cpu": "nccl"}))
dist.barrier()
dist.destroy_process_group()
sys.stdout.write("right\n")  # in one piece: torchrun runs ranks without buffers
