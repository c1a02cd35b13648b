"""The backend "weir" of torch.distributed: all_reduce by Weir, everything else by a backend that is named for it.

    import torch.distributed as dist, weir.torch
    dist.init_process_group("weir")

docs/adopt/pytorch.md says what to set. A process group of Weir takes CPU and CUDA tensors alike, so "cpu:weir,cuda:weir" is
the same, and a group with weir for one kind of device has it for both.
"""

import dataclasses
import threading
import typing

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import AllreduceOptions, ReduceOp, _create_work_from_future

from . import _array, _torch_join, _torch_others
from ._errors import Error, GroupFailed, Invalid
from ._torch_others import DELEGATED, Others


@dataclasses.dataclass
class Options:
    """What init_process_group and new_group take as pg_options.

    others is the backend for what Weir does not do: "gloo", "nccl", None (such calls are errors), or one for each kind of device,
    which is the default. device is the GPU of this rank as weir.join takes it; "" is none; None takes WEIR_DEVICE, or else the
    current device, or else the local rank modulo the number of GPUs. It counts at the first group only. Groups that are made without
    options have those of the default group.
    """

    others: typing.Union[str, None, dict] = dataclasses.field(default_factory=lambda: {"cpu": "gloo", "cuda": "nccl"})
    device: typing.Optional[str] = None

    def __post_init__(self):
        if not isinstance(self.others, dict):
            self.others = {"cpu": None if self.others == "nccl" else self.others, "cuda": self.others}
        for device, name in self.others.items():
            if device not in ("cpu", "cuda") or name not in ("gloo", "nccl", None) or (device, name) == ("cpu", "nccl"):
                raise Invalid(f"others: {name!r} for {device}; want gloo, for cuda also nccl, or None")


_OPS = [(ReduceOp.SUM, "sum"), (ReduceOp.AVG, "avg"), (ReduceOp.MAX, "max"), (ReduceOp.MIN, "min"), (ReduceOp.PRODUCT, "prod")]
_TYPES = {getattr(torch, name) for name in _array.DATA_TYPES}


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

    def getBackendName(self):
        """For torch's C++."""
        return "weir"

    name = getBackendName

    # torch keeps a group's name in its backends, of which this group has none. Functional collectives, and so torch.compile and
    # DTensor, know a group by it, and destroy_process_group asks for it.
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

    def allreduce(self, tensors, opts=None, op=None, timeout=None):
        """All-reduces tensors in place; what Weir has no type or op for goes to the other backend."""
        tensors = [tensors] if isinstance(tensors, torch.Tensor) else tensors
        wanted = getattr(opts, "reduceOp", None) if opts is not None else op
        if wanted is None:
            wanted = opts if opts is not None else ReduceOp.SUM
        name = next((name for known, name in _OPS if wanted == known), None)
        if name is None or any(t.dtype not in _TYPES or t.layout != torch.strided for t in tensors):
            given = AllreduceOptions()
            given.reduceOp = wanted
            return self._others.of(tensors, "all_reduce of this type or op").allreduce(tensors, given)
        with self._lock:
            for tensor in tensors:
                self._all_reduce(tensor.detach(), name)
        # Newer versions of torch say when nobody keeps the Work: then it need not know the tensors, which costs more than
        # the call, as it has come to the current stream already.
        return completed(tensors) if getattr(opts, "asyncOp", True) else _DONE

    def allreduce_coalesced(self, tensors, opts=None):
        """All-reduces one tensor after the other."""
        return self.allreduce(tensors, opts)

    def _all_reduce(self, tensor, op):
        if tensor.numel() == 0:
            return
        if tensor.is_cuda:
            self._warm(tensor.dtype, op)
        if tensor.is_contiguous() and not tensor.is_neg():  # a view of the other sign has the values of its memory
            self.weir.all_reduce(tensor, op)
        else:
            whole = tensor.resolve_neg().contiguous()
            self.weir.all_reduce(whole, op)
            tensor.copy_(whole)

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
        """Ends the other backends and leaves the group. destroy_process_group calls it, from PyTorch 2.6 on."""
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


def _delegate(method, collective):
    def call(self, *args, **kwargs):
        return self._others.method(method, (args, kwargs))(*args, **kwargs)

    call.__name__ = method
    call.__doc__ = f"{collective} by the backend that is named for it."
    return call


for _method, _collective in DELEGATED.items():
    setattr(ProcessGroupWeir, _method, _delegate(_method, _collective))


def completed(tensors):
    """A Work of calls that have been made: host memory holds the result, and streams of devices come to it."""
    devices = sorted({t.device.index for t in tensors if t.is_cuda})
    future = torch.futures.Future(devices=[torch.device("cuda", d) for d in devices]) if devices else torch.futures.Future()
    future.set_result(list(tensors))
    return _create_work_from_future(future)


_DONE = completed([])


_default = None  # the options of the default group


def _create(given, options=None):
    """What torch calls to make a process group, on its members."""
    global _default
    members = list(given.global_ranks_in_group)
    part = members and _torch_join.session() is not None
    if options is None:
        options = _default if part and _default is not None else Options()
    if not isinstance(options, Options):
        raise Invalid(f"pg_options is a {type(options).__name__}; give weir.torch.Options")
    seconds = given.timeout.total_seconds() if given.timeout else None
    if part:
        group = _torch_join.session().new_group(members, timeout=seconds)
    else:
        group = _torch_join.join_as(given.group_rank, given.group_size, given.store, options.device, seconds).world
        _default = options
    others = Others(options.others, given.store, group.rank, group.size, given.timeout)
    return ProcessGroupWeir(group, others, given.group_id)


def _register():
    if hasattr(dist.Backend, "WEIR"):
        return
    try:
        dist.Backend.register_backend("weir", _create, extended_api=True, devices=["cpu", "cuda"])
    except TypeError:  # before 2.0 a backend has all devices
        dist.Backend.register_backend("weir", _create, extended_api=True)
    _torch_join.register()
    _torch_others.gather_batches(ProcessGroupWeir)


def _autoload():
    """For the entry point of torch.backends, which imports this module."""


_register()
