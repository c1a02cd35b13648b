"""What PyTorch programs were found to do that Weir had wrong where gloo was right, and what is like it. Two ranks, on the CPU:
weir run -n 2 -- python3 corners.py [part ...]."""

import datetime
import tempfile
import warnings

import torch
import torch.distributed as dist
import weir
from parts import raises, rank, run, same, since, size

O = dist.ReduceOp
ten = 10 * rank  # makes the ranks' values differ


def coalesced():
    """One tensor twice, views that overlap, on this rank alone or on both: each gives its values of before."""
    x = torch.tensor([1.0, 2.0])
    dist.all_reduce_coalesced([x, x])
    same(x, [2, 4])
    y = torch.tensor([1.0, 2.0, 3.0])
    dist.all_reduce_coalesced([y[:2], y[1:]])
    same(y, [2, 4, 6])
    z = torch.arange(4.0).reshape(2, 2)
    dist.all_reduce_coalesced([z, z.t(), z[0], z.view(-1)[3:], torch.zeros(0)], op=O.MAX)
    same(z, [[0, 1], [2, 3]])
    one = torch.full((2,), 1.0 + rank)
    dist.all_reduce_coalesced([one, one] if rank == 0 else [one, one.clone()])
    same(one, [3, 3])
    bits = [torch.tensor([6 + rank]), torch.tensor([12])]
    dist.all_reduce_coalesced(bits, op=O.BAND)  # not Weir's, and each still its own
    same(bits, [[6], [12]])
    whole = torch.tensor([5, 6])
    dist.all_reduce_coalesced([whole, whole], op=O.BOR)
    same(whole, [5, 6])


def coalescing_manager():
    since(2, 2)
    from torch.distributed.distributed_c10d import _coalescing_manager

    x, y = torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.0, 3.0])
    with _coalescing_manager(device=torch.device("cpu")):
        for part in (x, x, y[:2], y[1:]):
            dist.all_reduce(part)
    same([x, y], [[2, 4], [2, 4, 6]])


def several_at_once():
    """What a rank has on several devices is reduced to one."""
    for op, want in ((O.SUM, 2 * (1 + 2) + 10 * 2), (O.MAX, 12), (O.MIN, 1), (O.PRODUCT, 1 * 2 * 11 * 12)):
        tensors = [torch.full((3,), 1.0 + ten), torch.full((3,), 2.0 + ten)]
        dist.group.WORLD.allreduce(tensors, op).wait()
        same(tensors, [[want] * 3] * 2)
    raises(weir.Error, "other shapes", lambda: dist.group.WORLD.allreduce([torch.zeros(1), torch.zeros(2)]))


def nothing():
    raises(RuntimeError, "non-empty", lambda: dist.all_reduce_coalesced([]))
    raises(RuntimeError, "non-empty", lambda: dist.group.WORLD.allreduce([]))
    raises(RuntimeError, "", lambda: dist.group.WORLD.broadcast([]))
    for shape in ((0,), (3, 0)):
        for call in (dist.all_reduce, lambda t: dist.broadcast(t, 0), lambda t: dist.all_gather([t.clone(), t.clone()], t)):
            call(torch.zeros(shape))
    for dtype in (torch.float32, torch.bool, torch.complex64, torch.int64):
        empty = [torch.zeros(0, dtype=dtype) for _ in range(4)]
        dist.all_to_all(empty[:2], empty[2:])


def exchanged():
    """all_to_all of lists, of several shapes and types, also of none for one rank."""
    for dtype in (torch.float32, torch.float64, torch.int8, torch.int16, torch.bool, torch.bfloat16, torch.complex64):
        given = [torch.full((1 + r + rank,), 3.0 + r + rank).to(dtype) for r in range(size)]
        outputs = [torch.zeros(1 + r + rank, dtype=dtype) for r in range(size)]
        dist.all_to_all(outputs, given)
        same(outputs, [torch.full((1 + r + rank,), 3.0 + r + rank).to(dtype).tolist() for r in range(size)])
    outputs = [torch.zeros(2 * rank), torch.zeros(2 * rank)]
    dist.all_to_all(outputs, [torch.zeros(0), torch.arange(2.0) + ten])
    same(outputs, [[], []] if rank == 0 else [[0, 1], [10, 11]])
    work = dist.all_to_all(outputs, [torch.zeros(0), torch.arange(2.0) - ten], async_op=True)
    assert work.wait(datetime.timedelta(seconds=60)) and work.wait()
    same(outputs, [[], []] if rank == 0 else [[0, 1], [-10, -9]])
    raises(weir.Error, "one tensor for each rank", lambda: dist.all_to_all([torch.zeros(1)], [torch.zeros(1)]))


def gradients():
    import torch.distributed.nn.functional as functional

    x = torch.full((2,), 1.0 + rank, requires_grad=True)
    parts = functional.all_gather(x)
    same([part.detach() for part in parts], [[1, 1], [2, 2]])
    (sum(parts) * (rank + 1)).sum().backward()
    same(x.grad, [3, 3])
    y = torch.full((2,), 1.0 + rank, requires_grad=True)
    outputs = functional.all_to_all([torch.zeros(1), torch.zeros(1)], list(y.split(1)))
    (outputs[0] * 3 + outputs[1] * 5).sum().backward()
    same(y.grad, [3 + 2 * rank] * 2)
    z = torch.full((2,), 1.0 + rank, requires_grad=True)
    (functional.all_reduce(z) * (rank + 1)).sum().backward()
    same(z.grad, [3, 3])


def waits():
    t = torch.full((2,), 1.0 + rank)
    work = dist.all_reduce(t, async_op=True)
    assert work.wait(datetime.timedelta(seconds=10)) and work.wait(timeout=datetime.timedelta(seconds=10)) and work.is_completed()
    same(t, [3, 3])
    assert dist.broadcast(t, 0, async_op=True).wait(datetime.timedelta(seconds=60))
    assert dist.broadcast(torch.zeros(4, 3)[:, 1], 0, async_op=True).wait(datetime.timedelta(seconds=60))
    with torch.inference_mode():
        kept = torch.full((4, 2), 1.0 + rank)
    dist.all_reduce(kept[:, 0])
    dist.broadcast(kept[:, 1], 0)
    same(kept, [[3, 1]] * 4)
    parameter = torch.nn.Parameter(torch.full((4, 2), 1.0 + rank).t())
    dist.broadcast(parameter, 0)
    dist.all_reduce(parameter)
    same(parameter, [[2] * 4] * 2)


def numbers():
    group = dist.group.WORLD
    before = group._get_sequence_number_for_group()
    dist.all_reduce(torch.ones(1))
    dist.broadcast(torch.ones(1), 0)
    dist.barrier()
    dist.all_reduce(torch.ones(1, dtype=torch.int64), O.BOR)
    assert group._get_sequence_number_for_group() == before + 4
    numbers = [None] * size
    dist.all_gather_object(numbers, group._get_sequence_number_for_group())
    assert numbers[0] == numbers[1], numbers
    part = dist.new_group([0, 1])
    assert part._get_sequence_number_for_group() == 0


def timeouts():
    since(2, 1)
    assert torch.device("cpu") in dist.group.WORLD._device_types
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        dist.distributed_c10d._set_pg_timeout(datetime.timedelta(seconds=90))


def monitored():
    dist.monitored_barrier(timeout=datetime.timedelta(seconds=60))
    dist.monitored_barrier(wait_all_ranks=True)
    part = dist.new_group([1, 0])
    dist.monitored_barrier(part, datetime.timedelta(seconds=60))
    raises(TypeError, "timedelta", lambda: dist.monitored_barrier(timeout="soon"))


def checkpoints():
    since(2, 4)
    import torch.distributed.checkpoint as checkpoint

    folders = [tempfile.mkdtemp() if rank == 0 else None]
    dist.broadcast_object_list(folders, 0)
    checkpoint.async_save({"a": torch.arange(4.0)}, checkpoint_id=folders[0]).result()
    dist.barrier()
    read = {"a": torch.zeros(4)}
    checkpoint.load(read, checkpoint_id=folders[0])
    same(read["a"], [0, 1, 2, 3])

    from torch.distributed.checkpoint.format_utils import BroadcastingTorchSaveReader

    saved = folders[0] + "/saved.pt"
    if rank == 0:
        torch.save({"a": torch.arange(4.0) + 5}, saved)
    dist.barrier()
    read = {"a": torch.zeros(4)}
    checkpoint.load(read, checkpoint_id=saved, storage_reader=BroadcastingTorchSaveReader(), planner=flat_planner())
    same(read["a"], [5, 6, 7, 8])


def flat_planner():
    from torch.distributed.checkpoint.format_utils import DynamicMetaLoadPlanner

    return DynamicMetaLoadPlanner()


def gathered_out():
    since(2, 4)
    import torch.distributed._functional_collectives  # noqa: F401

    out = torch.zeros(4)
    ops = torch.ops._c10d_functional
    ops.wait_tensor(ops.all_gather_into_tensor_out(torch.full((2,), float(rank)), 2, dist.group.WORLD.group_name, out=out))
    same(out, [0, 0, 1, 1])


ALL = [coalesced, coalescing_manager, several_at_once, nothing, exchanged, gradients, waits, numbers, timeouts, monitored]
run(*ALL, checkpoints, gathered_out)
