"""The backends that do for a process group what Weir does not."""

import torch
import torch.distributed as dist

from . import _torch_gloo
from ._errors import Error
from ._torch_join import prefix

# By the method's name what the user called. Some exist in newer versions of torch only.
DELEGATED = {
    "broadcast": "broadcast",
    "allgather": "all_gather",
    "_allgather_base": "all_gather_into_tensor",
    "allgather_coalesced": "all_gather of several tensors",
    "allgather_into_tensor_coalesced": "all_gather_into_tensor of several tensors",
    "reduce": "reduce",
    "reduce_scatter": "reduce_scatter",
    "_reduce_scatter_base": "reduce_scatter_tensor",
    "reduce_scatter_tensor_coalesced": "reduce_scatter_tensor of several tensors",
    "gather": "gather",
    "scatter": "scatter",
    "alltoall": "all_to_all",
    "alltoall_base": "all_to_all_single",
    "send": "send",
    "recv": "recv",
    "recv_anysource": "recv from any rank",
    "monitored_barrier": "monitored_barrier",
}

# Of these no sequence is counted: they are no calls of all ranks.
MESSAGES = {"send", "recv", "recv_anysource"}

# What newer versions of torch call them. Not all backends have both names.
_RENAMED = {
    "all_gather_single": "_allgather_base",
    "all_gather_single_coalesced": "allgather_into_tensor_coalesced",
    "reduce_scatter_single": "_reduce_scatter_base",
    "reduce_scatter_single_coalesced": "reduce_scatter_tensor_coalesced",
    "all_to_all_single": "alltoall_base",
}
DELEGATED.update({new: DELEGATED[old] for new, old in _RENAMED.items()})


# The numbers of torch's C++, from PyTorch 2.0 on.
_TYPES = {name: getattr(getattr(dist.ProcessGroup, "BackendType", None), name.upper(), None) for name in ("gloo", "nccl")}


class Others:
    """The other backends of one process group, by kind of device. gloo's is made at once, since all ranks must meet for it."""

    def __init__(self, names, store, rank, size, timeout):
        self._names, self._store, self._rank, self._size, self._timeout = names, store, rank, size, timeout
        self._made, self._groups = {}, []
        if "gloo" in names.values():
            self._made["gloo"] = dist.ProcessGroupGloo(dist.PrefixStore(prefix("gloo"), store), rank, size, timeout=timeout)

    def register_in(self, group):
        """Names the backends to torch as those of the group's devices: its C++ and its tools ask for them, from PyTorch 2.0 on."""
        if not hasattr(group, "_register_backend"):
            return
        known = {d: name for d, name in self._names.items() if name == "gloo" or name == "nccl" and _nccl_lacks() is None}
        for device, name in known.items():
            group._register_backend(torch.device(device), _TYPES[name], self.named(device))
        if known and hasattr(group, "_set_default_backend"):  # newer versions ask it for the group's name
            group._set_default_backend(_TYPES[known.get("cpu") or known["cuda"]])

    def call(self, name, args, named, said=None):
        """Calls a method of the backend for these arguments."""
        method, backend = self._find(name, (args, named), said or DELEGATED[name])
        if backend is self._made.get("gloo"):
            return _torch_gloo.call(method, name, said or DELEGATED[name], self._rank, args, named)
        return method(*args, **named)

    def method(self, name, arguments):
        """The method of the backend for a call with these arguments."""
        return self._find(name, arguments, DELEGATED[name])[0]

    def _find(self, name, arguments, said):
        backend = self.of(arguments, said)
        if backend is self._made.get("gloo"):
            other = _torch_gloo.other_way(backend, name, said, _first_tensor(arguments))
            if other is not None:
                return other, None
        for known in (name, _RENAMED.get(name, name)):
            if hasattr(backend, known):
                return getattr(backend, known), backend
        return getattr(self._whole(backend), name), backend

    def _whole(self, backend):
        """A process group with this backend alone: it has methods of which Python does not see a backend's own."""
        for made, whole in self._groups:
            if made is backend:
                return whole
        whole = dist.ProcessGroup(self._rank, self._size)
        name = "gloo" if backend is self._made.get("gloo") else "nccl"
        for device in ("cpu", "cuda") if name == "gloo" else ("cuda",):
            whole._register_backend(torch.device(device), _TYPES[name], backend)
        self._groups.append((backend, whole))
        return whole

    def of(self, arguments, collective):
        """The backend for a call with these arguments, as its first tensor lies."""
        tensor = _first_tensor(arguments)
        device = "cpu" if tensor is None else tensor.device.type
        backend = self.named(device)
        if backend is None:
            raise Error(
                f"Weir does no {collective} for {device} tensors, and no backend is named for it; "
                'name one: init_process_group("weir", pg_options=weir.torch.Options(others="gloo")), or "nccl" for cuda'
            )
        return backend

    def named(self, device):
        """The backend for a kind of device; None if there is none."""
        name = self._names.get(device)
        if name == "nccl" and name not in self._made:
            self._made[name] = self._nccl()
        return self._made.get(name)

    def end(self, how):
        """Shuts down or aborts the backends that were made, where this torch has that for them."""
        made, self._made, self._groups, self._names = self._made, {}, [], {}
        for backend in made.values():
            getattr(backend, how, getattr(backend, "_" + how, lambda: None))()

    def _nccl(self):
        lack = _nccl_lacks()
        if lack is not None:
            raise Error(f'{lack} for what Weir does not do; name another: weir.torch.Options(others="gloo")')
        options = dist.ProcessGroupNCCL.Options()
        options._timeout = self._timeout
        return dist.ProcessGroupNCCL(dist.PrefixStore(prefix("nccl"), self._store), self._rank, self._size, options)


def _nccl_lacks():
    if not dist.is_nccl_available():
        return "this PyTorch has no nccl"
    if not torch.cuda.is_available():
        return "nccl finds no GPU"
    return None


def _first_tensor(value):
    return next(_torch_gloo.tensors_of(value), None)
