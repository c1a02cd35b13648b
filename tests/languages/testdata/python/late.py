"""What an all_reduce that the other rank cannot come to says of itself: a message that must be sent first, and two groups in other
orders. Weir's call on CPU tensors ends when all ranks have come. weir run -n 2 -- python3 late.py, with a short WEIR_GROUP__DEADLINE."""

import datetime
import sys

import torch
import torch.distributed as dist
import weir.torch

dist.init_process_group("weir", timeout=datetime.timedelta(seconds=120))
rank = dist.get_rank()
pairs = [dist.new_group([0, 1]) for _ in range(3)]


def fails(group, **named):
    try:
        dist.all_reduce(torch.ones(1), group=group, **named)
    except weir.GroupFailed as error:
        return str(error)
    raise AssertionError("no error")


def first_rank():
    said = fails(pairs[0], async_op=True)
    dist.send(torch.full((1,), 5.0), 1)
    return said


def second_rank():
    word = torch.zeros(1)
    dist.recv(word, 0)
    assert word.item() == 5
    fails(pairs[0], async_op=True)  # has failed already: it says how
    return None


said = second_rank() if rank else first_rank()
crossed = fails(pairs[1 + rank], async_op=True)
for error in (said, crossed):
    assert error is None or "also with async_op=True" in error and "Asynchronous calls" in error, error
dist.barrier()
if hasattr(dist.distributed_c10d.AllreduceOptions(), "asyncOp"):  # then it says so only where the caller asked for it
    error = "" if rank else fails(dist.group.WORLD)
    assert "async_op" not in error, error
sys.stdout.write("right\n")
sys.stdout.flush()
