"""The backend "weir" of torch.distributed: all_reduce by Weir, everything else by a backend that is named for it.

    import torch.distributed as dist, weir.torch
    dist.init_process_group("weir")

docs/adopt/pytorch.md says what to set. A process group of Weir takes CPU and CUDA tensors alike, so "cpu:weir,cuda:weir" is
the same, and a group with weir for one kind of device has it for both.
"""

import dataclasses
import typing

import torch.distributed as dist

from . import _torch_join, _torch_named, _torch_work
from ._errors import Invalid
from ._torch_group import ProcessGroupWeir
from ._torch_others import Others


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
    _torch_named.register(ProcessGroupWeir)
    _torch_work.register()


def _autoload():
    """For the entry point of torch.backends, which imports this module."""


_register()
