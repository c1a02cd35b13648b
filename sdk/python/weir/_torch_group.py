"""The process group of torch.distributed whose all_reduce is Weir's."""

import itertools
import re
import threading

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import AllreduceCoalescedOptions, AllreduceOptions, ReduceOp

from . import _array, _torch_join, _torch_memory
from ._errors import Error, GroupFailed, Invalid
from ._torch_others import DELEGATED, MESSAGES
from ._torch_work import completed

_OPS = [(ReduceOp.SUM, "sum"), (ReduceOp.AVG, "avg"), (ReduceOp.MAX, "max"), (ReduceOp.MIN, "min"), (ReduceOp.PRODUCT, "prod")]
_TYPES = {getattr(torch, name) for name in _array.DATA_TYPES}
_TOGETHER = {"sum": torch.add, "max": torch.maximum, "min": torch.minimum, "prod": torch.mul}
_DONE = completed([])


class ProcessGroupWeir(dist.ProcessGroup):
    """A process group whose all_reduce is Weir's. Calls from several threads come one after the other."""

    # What torch asks the backend of a device: see _get_backend.
    supports_splitting = supports_coalescing = False

    def __init__(self, group, others, name):
        super().__init__(group.rank, group.size)
        self.weir, self._others, self._name = group, others, name
        self._lock = threading.Lock()
        self._known = set()  # classes of CUDA calls that were decided for graphs too
        self._coalescing = None  # the other backend that gathers calls now
        self._numbers, self._sequence = itertools.count(1), 0
        others.register_in(self)

    def getBackendName(self):
        """For torch's C++."""
        return "weir"

    name = getBackendName

    # torch keeps a group's name in its backends, and this group is none of its own. Functional collectives, and so torch.compile
    # and DTensor, know a group by it, and destroy_process_group asks for it.
    @property
    def group_name(self):
        """The name by which torch finds the group."""
        return self._name

    def getGroupName(self):
        """For torch's C++."""
        return self._name

    def setGroupName(self, name):
        """For torch's C++."""
        self._name = name

    def _get_backend(self, device):
        """The backend that does the rest for a kind of device, or this group itself: init_process_group asks it if it is given a
        device_id, and connects it at once."""
        return self._others.named(torch.device(device).type) or self

    def _get_sequence_number_for_group(self):
        """How many collectives this rank has begun on the group: the same on all ranks that have come as far."""
        return self._sequence

    def _set_sequence_number_for_group(self):
        """Nothing: every group begins with 0."""

    def count(self):
        """Counts a collective."""
        self._sequence = next(self._numbers)

    def allreduce(self, tensors, opts=None, op=None, timeout=None):
        """All-reduces a tensor in place; what Weir has no type or op for goes to the other backend. Of several tensors, as on
        several devices of a rank, the result is that of all of them, as with other backends."""
        tensors = [tensors] if isinstance(tensors, torch.Tensor) else tensors
        return self._reduced(tensors, opts, op, "allreduce", AllreduceOptions)

    def allreduce_coalesced(self, tensors, opts=None):
        """All-reduces one tensor after the other. Tensors that share memory each give their values of before."""
        return self._reduced(tensors, opts, None, "allreduce_coalesced", AllreduceCoalescedOptions)

    def _reduced(self, tensors, opts, op, method, options):
        if not tensors:
            raise Invalid(f"{method}: requires non-empty tensor list")
        self.count()
        wanted = getattr(opts, "reduceOp", None) if opts is not None else op
        if wanted is None:
            wanted = opts if opts is not None else ReduceOp.SUM
        name = next((name for known, name in _OPS if wanted == known), None)
        if name is None or any(t.dtype not in _TYPES or t.layout != torch.strided for t in tensors):
            given = options()
            given.reduceOp = wanted
            return self._others.call(method, (tensors, given), {}, "all_reduce of this type or op")
        kept = getattr(opts, "asyncOp", True)
        try:
            with self._lock:
                self._all_reduce(tensors, name, method == "allreduce")
        except GroupFailed as error:
            if kept and not tensors[0].is_cuda and _LATE.search(str(error)):
                raise GroupFailed(f"{error}; {_BLOCKS}") from None
            raise
        # Newer versions of torch say when nobody keeps the Work: then it need not know the tensors, which costs more than
        # the call, as it has come to the current stream already.
        return completed(tensors) if kept else _DONE

    def _all_reduce(self, tensors, op, together):
        tensors = [tensor.detach() for tensor in tensors]
        values = _torch_memory.private(tensors)
        for value in [_combined(values, op)] if together and len(values) > 1 else values:
            if value.numel() > 0:
                if value.is_cuda:
                    self._warm(value.dtype, op)
                self.weir.all_reduce(value, op)
        for tensor, value in zip(tensors, values):
            _torch_memory.put(tensor, values[0] if together else value)

    def _warm(self, dtype, op):
        """Before the first call of a class has it decided for graphs too: programs make some calls before they capture."""
        if (dtype, op) in self._known or torch.cuda.is_current_stream_capturing():
            return
        try:
            self.weir.warm(dtype, op, "cuda", captured=True)
        except GroupFailed:
            raise
        except Error:
            pass  # nobody serves it, on any rank; a capture will say so
        self._known.add((dtype, op))

    def barrier(self, opts=None, timeout=None):
        """Waits for all ranks."""
        self.count()
        other = self._others.named("cpu")
        if other is not None:
            return other.barrier() if opts is None else other.barrier(opts)
        self.weir.barrier()
        return completed([])

    def _start_coalescing(self, device=None):
        """Of the calls between this and the end, all_reduces are made as they come; the rest goes to a backend that gathers them
        if it can: nccl does not come to an end of a send and a receive between the same ranks otherwise."""
        other = self._others.named(torch.device(device).type) if device is not None else None
        self._coalescing = other if getattr(other, "supports_coalescing", False) else None
        if self._coalescing is not None:
            self._coalescing._start_coalescing()

    def _end_coalescing(self, device=None):
        other, self._coalescing = self._coalescing, None
        work = None if other is None else other._end_coalescing()
        return completed([]) if work is None else work

    def shutdown(self):
        """Ends the other backends and leaves the group. destroy_process_group calls it in PyTorch 2.11, and not yet in 2.6."""
        try:
            self._others.end("shutdown")
        finally:
            _torch_join.leave(self.weir)

    def abort(self):
        """Makes calls on the group end, on all ranks."""
        try:
            self.weir.abort("abort() of the process group")
        finally:
            self._others.end("abort")


# For versions of torch that call these from C++.
ProcessGroupWeir.start_coalescing, ProcessGroupWeir.end_coalescing = ProcessGroupWeir._start_coalescing, ProcessGroupWeir._end_coalescing

# A failure of a rank that waits for another one's call, and what one may not know of it.
_LATE = re.compile(r"did not (call|begin) ")
_BLOCKS = (
    "an all_reduce of CPU tensors ends when all ranks have called it, also with async_op=True, so a rank must not wait for "
    "anything of this one before it calls it too (docs/adopt/pytorch.md, Asynchronous calls)"
)


def _combined(values, op):
    """The first of several tensors, which becomes the result of all of this rank's."""
    if op not in _TOGETHER:
        raise Invalid(f"allreduce: {op} of several tensors at once; give one tensor, or all_reduce_coalesced")
    for value in values[1:]:
        if (value.shape, value.dtype) != (values[0].shape, values[0].dtype):
            raise Invalid("allreduce: several tensors of other shapes or types; give one tensor, or all_reduce_coalesced")
        _TOGETHER[op](values[0], value, out=values[0])
    return values[0]


def _delegate(method, collective):
    def call(self, *args, **kwargs):
        if method not in MESSAGES:
            self.count()
        return self._others.call(method, args, kwargs)

    call.__name__ = method
    call.__doc__ = f"{collective} by the backend that is named for it."
    return call


for _method, _collective in DELEGATED.items():
    setattr(ProcessGroupWeir, _method, _delegate(_method, _collective))
