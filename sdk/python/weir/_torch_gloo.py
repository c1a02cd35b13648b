"""What gloo is helped with: it reads and writes memory from a tensor's address on, and lacks some collectives."""

import torch

from . import _torch_memory
from ._errors import Error, Invalid
from ._torch_work import Finished, completed

# What it does in the memory of its arguments, two of which must not share any then.
_SPLIT = {"alltoall_base", "all_to_all_single"}
_IN_PLACE = {"scatter"} | _SPLIT
_GATHERS = {"allgather", "_allgather_base", "all_gather_single"}

# What it takes to be in host memory whatever it is: it would break its connections over it, or the process.
_HOST_ONLY = {"send", "recv", "recv_anysource", "allgather_coalesced"}


def call(method, name, said, rank, args, named):
    """Calls a method of gloo, with copies of the tensors that do not lie in one piece, or that share memory where it works in place."""
    tensors = list(tensors_of((args, named)))
    if name in _GATHERS and tensors and not any(tensor.numel() for tensor in tensors):
        return completed(tensors)  # that of PyTorch 1.13 divides by their size, which ends the process
    if name in _SPLIT and any(tensor.dim() == 0 for tensor in tensors):
        raise Invalid(f"{said}: a tensor of no dimension cannot be split among the ranks; give tensor.reshape(1)")
    alone = name not in _IN_PLACE or not _torch_memory.overlap(tensors)
    if alone and all(map(_torch_memory.plain, tensors)):
        return method(*args, **named)
    if name in ("recv", "recv_anysource"):  # has no Work that another could wait for
        raise Invalid(f"{said}: the tensor does not lie in one piece or is a view of the other sign; receive in one that does")
    pairs, given, words = [], [], {}
    for position, value in [*enumerate(args), *named.items()]:
        value, more = _torch_memory.substitute(value, alone)
        if position == 0 or isinstance(position, str) and not position.startswith("input"):
            pairs += more
        if isinstance(position, str):
            words[position] = value
        else:
            given.append(value)
    if name == "reduce" and _root([*args, *named.values()]) != rank:
        pairs = []  # only the root has a result
    work = method(*given, **words)
    return work if name == "send" else _afterwards(work, [tensor for tensor, _ in pairs], lambda: _write(pairs))


def _root(values):
    return next((value.rootRank for value in values if hasattr(value, "rootRank")), 0)


def _write(pairs):
    for tensor, values in pairs:
        _torch_memory.put(tensor, values)


def other_way(backend, name, said, tensor):
    """What is called in place of gloo's method; None if nothing is. It is an error if gloo must not be called."""
    if name == "alltoall":
        return lambda *args, **named: _exchange(backend, *args, **named)
    if not getattr(tensor, "is_cuda", False):
        return None
    if name in ("allgather_into_tensor_coalesced", "all_gather_single_coalesced"):
        return lambda *args, **named: _gather_each(backend, *args, **named)
    if name in _HOST_ONLY:
        raise Error(
            f"gloo does no {said} for cuda tensors; "
            'name another for them: weir.torch.Options(others={"cpu": "gloo", "cuda": "nccl"})'
        )
    return None


def _gather_each(backend, outputs, inputs, opts=None):
    """One tensor after the other, which gloo does for cuda tensors as well."""
    works = [backend._allgather_base(output, given) for output, given in zip(outputs, inputs)]
    for work in works[:-1]:
        work.wait()
    return works[-1]


def _exchange(backend, output_tensors, input_tensors, opts=None):
    """all_to_all of lists, as one of their bytes."""
    for tensors, what in ((output_tensors, "outputs"), (input_tensors, "inputs")):
        if len(tensors) != backend.size():
            raise Invalid(f"all_to_all: {len(tensors)} {what} on {backend.size()} ranks; give one tensor for each rank")
    sent = torch.cat([_torch_memory.copied(tensor).reshape(-1).view(torch.uint8) for tensor in input_tensors])
    sizes = [[tensor.numel() * tensor.element_size() for tensor in tensors] for tensors in (output_tensors, input_tensors)]
    received = torch.empty(sum(sizes[0]), dtype=torch.uint8, device=sent.device)

    def write():
        for tensor, part in zip(output_tensors, received.split(sizes[0])):
            # Where a part begins in the whole need not be a place for its type.
            _torch_memory.put(tensor, part.clone().view(tensor.dtype).reshape(tensor.shape))

    work = backend.alltoall_base(received, sent, *sizes, *([] if opts is None else [opts]))
    return _afterwards(work, output_tensors, write)


def _afterwards(work, tensors, write):
    """A Work that writes the results to tensors when another has ended."""
    if any(tensor.is_cuda for tensor in tensors):  # the results come to the stream of now
        work.wait()
        write()
        return completed(tensors)
    return Finished(work, write, tensors)


def tensors_of(value):
    """The tensors in a call's arguments, in order."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        yield from tensors_of(list(value.values()))
    elif isinstance(value, (list, tuple)) or hasattr(value, "__iter__") and not isinstance(value, (str, bytes)):
        for part in value:
            yield from tensors_of(part)
