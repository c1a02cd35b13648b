"""Collectives of tensors whose memory is not their values one after the other: columns, expanded ones, views of the other sign.
Two ranks, on the CPU: weir run -n 2 -- python3 memory.py [part ...]."""

import torch
import torch.distributed as dist
import weir
from parts import raises, rank, run, same, size

O = dist.ReduceOp
ten = 10 * rank  # makes the ranks' values differ


# Tensors of four values whose memory is not those four one after the other. Each is (made of the values, values that it can hold).


def column(values):
    whole = torch.zeros(4, 3)
    whole[:, 1] = torch.tensor(values)
    return whole[:, 1]


def transposed(values):
    return torch.tensor(values).reshape(2, 2).t().contiguous().t()


def negative(values):
    return torch.complex(torch.zeros(4), -torch.tensor(values)).conj().imag


def expanded(values):
    return torch.tensor([values[0]] + [0.0] * 8)[:1].expand(4)  # with memory behind it, which must stay


def windows(values):
    return torch.tensor([values[0], values[1], values[3]] + [0.0] * 8)[:3].unfold(0, 2, 1)


def middle(values):  # one dimension of three is expanded
    return torch.tensor([[[values[0]], [values[2]]]] + [[[0.0], [0.0]]] * 3)[:1].expand(1, 2, 2)


ALL = [1.0, 2.0, 3.0, 4.0]
KINDS = [
    (torch.tensor, ALL),
    (column, ALL),
    (transposed, ALL),
    (negative, ALL),
    (expanded, [1.0] * 4),
    (windows, [1.0, 2.0, 2.0, 3.0]),
    (middle, [1.0, 1.0, 3.0, 3.0]),
]


def each_kind(call):
    for make, values in KINDS:
        here = [value + ten for value in values]
        try:
            call(make(here), values)
        except Exception as error:
            raise AssertionError(f"{make.__name__}: {error}") from error


def flat(tensor):
    return tensor.reshape(-1) if not tensor.is_neg() else tensor.resolve_neg().reshape(-1)


def plus(values, n):
    return [value + n for value in values]


def memory_of_all_reduce():
    def sums(tensor, values):
        dist.all_reduce(tensor)
        same(flat(tensor), [2 * value + 10 for value in values])

    def maxima(tensor, values):
        dist.all_reduce(tensor, O.MAX)
        same(flat(tensor), plus(values, 10))

    def later(tensor, values):
        dist.all_reduce(tensor, async_op=True).wait()
        same(flat(tensor), [2 * value + 10 for value in values])

    def listed(tensor, values):
        other = torch.full((2,), 1.0 + rank)
        dist.all_reduce_coalesced([other, tensor, other])
        same(flat(tensor), [2 * value + 10 for value in values])
        same(other, [3, 3])

    def whole_numbers(tensor, values):  # of an op that is not Weir's
        tensor = torch.full((64,), 6 + rank).as_strided(tensor.shape, tensor.stride())
        dist.all_reduce(tensor, O.BOR)
        same(flat(tensor), [7] * 4)

    for call in (sums, maxima, later, listed, whole_numbers):
        each_kind(call)
    if rank == 0:  # four sums have no place in one
        raises(weir.Error, "share memory", lambda: dist.all_reduce(torch.zeros(1).expand(4)))
    else:
        dist.all_reduce(torch.tensor(ALL))
    row = torch.arange(6.0).reshape(2, 3)  # its neighbours stay as they are
    dist.all_reduce(row[:, 1])
    same(row, [[0, 2, 2], [3, 8, 5]])


def memory_of_the_rest():
    def broadcast(tensor, values):
        dist.broadcast(tensor, 1)
        same(flat(tensor), plus(values, 10))

    def broadcast_later(tensor, values):
        work = dist.broadcast(tensor, 0, async_op=True)
        assert work.wait() and work.is_completed()
        same(flat(tensor), values)

    def reduce(tensor, values):
        dist.reduce(tensor, 1)
        if rank == 1:
            same(flat(tensor), [2 * value + 10 for value in values])

    def all_gather(tensor, values):
        outputs = [torch.zeros(tensor.shape), tensor.detach().clone()]
        dist.all_gather(outputs, tensor)
        same([flat(output) for output in outputs], [values, plus(values, 10)])

    def all_gather_into_it(tensor, values):
        outputs = [torch.zeros(tensor.shape), tensor]
        dist.all_gather(outputs, torch.tensor(plus(values, ten)).reshape(tensor.shape))
        same([flat(output) for output in outputs], [values, plus(values, 10)])

    def gather(tensor, values):
        outputs = [torch.zeros(tensor.shape) for _ in range(size)] if rank == 1 else None
        dist.gather(tensor, outputs, 1)
        if rank == 1:
            same([flat(output) for output in outputs], [values, plus(values, 10)])

    def scatter(tensor, values):
        output = torch.zeros(tensor.shape)
        dist.scatter(output, [torch.zeros(tensor.shape), tensor] if rank == 0 else None, 0)
        same(flat(output), values if rank == 1 else [0] * 4)

    def scatter_into_it(tensor, values):
        dist.scatter(tensor, [torch.tensor(values).reshape(tensor.shape) + r for r in range(size)] if rank == 0 else None, 0)
        same(flat(tensor), plus(values, rank))

    def exchange(tensor, values):
        outputs = [torch.zeros(tensor.shape) for _ in range(size)]
        dist.all_to_all(outputs, [tensor, tensor])
        same([flat(output) for output in outputs], [values, plus(values, 10)])

    def exchange_single(tensor, values):
        output = torch.zeros(2, 2)
        dist.all_to_all_single(output, tensor.view(2, 2) if tensor.shape == (4,) and tensor.is_contiguous() else tensor.reshape(2, 2))
        half = values[2 * rank : 2 * rank + 2]
        same(output, [half, plus(half, 10)])

    def send(tensor, values):
        if rank == 0:
            dist.send(tensor, 1)
        else:
            got = torch.zeros(4)
            dist.recv(got, 0)
            same(got, values)

    for call in (broadcast, broadcast_later, reduce, all_gather, all_gather_into_it, gather, scatter, scatter_into_it, exchange, exchange_single, send):
        try:
            each_kind(call)
        except AssertionError as error:
            raise AssertionError(f"{call.__name__} of {error}") from error
    both = torch.arange(4.0) + ten  # exchanged in place
    dist.all_to_all_single(both, both)
    same(both, [2.0 * rank, 2.0 * rank + 1, 2.0 * rank + 10, 2.0 * rank + 11])
    parts = torch.arange(4.0)  # rank 0 scatters what lies where its own part will
    dist.scatter(parts[2:], [parts[:2], parts[2:]] if rank == 0 else None, 0)
    same(parts, [0, 1, 0, 1] if rank == 0 else [0, 1, 2, 3])
    raises(weir.Error, "one piece", lambda: dist.recv(column(ALL), 1 - rank))
    raises(weir.Error, "cannot be split", lambda: dist.all_to_all_single(torch.tensor(1.0), torch.tensor(2.0)))


run(memory_of_all_reduce, memory_of_the_rest)
