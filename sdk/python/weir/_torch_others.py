"""The backends that do for a process group what Weir does not."""

import functools

import torch
import torch.distributed as dist

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

# What newer versions of torch call them. Not all backends have both names.
_RENAMED = {
    "all_gather_single": "_allgather_base",
    "all_gather_single_coalesced": "allgather_into_tensor_coalesced",
    "reduce_scatter_single": "_reduce_scatter_base",
    "reduce_scatter_single_coalesced": "reduce_scatter_tensor_coalesced",
    "all_to_all_single": "alltoall_base",
}
DELEGATED.update({new: DELEGATED[old] for new, old in _RENAMED.items()})


# What gloo takes to be in host memory whatever it is: it would break its connections over it, or the process.
_HOST_ONLY = {"send", "recv", "recv_anysource", "allgather_coalesced"}
_HOST_ONLY_GATHER = {"allgather_into_tensor_coalesced", "all_gather_single_coalesced"}


class Others:
    """The other backends of one process group, by kind of device. gloo's is made at once, since all ranks must meet for it."""

    def __init__(self, names, store, rank, size, timeout):
        self._names, self._store, self._rank, self._size, self._timeout = names, store, rank, size, timeout
        self._made, self._groups = {}, []
        if "gloo" in names.values():
            self._made["gloo"] = dist.ProcessGroupGloo(dist.PrefixStore(prefix("gloo"), store), rank, size, timeout=timeout)

    def method(self, name, arguments):
        """The method of the backend for a call with these arguments."""
        backend = self.of(arguments, DELEGATED[name])
        if backend is self._made.get("gloo") and getattr(_first_tensor(arguments), "is_cuda", False):
            if name in _HOST_ONLY_GATHER:
                return functools.partial(_gather_each, backend)
            if name in _HOST_ONLY:
                raise Error(
                    f"gloo does no {DELEGATED[name]} for cuda tensors; "
                    'name another for them: weir.torch.Options(others={"cpu": "gloo", "cuda": "nccl"})'
                )
        for known in (name, _RENAMED.get(name, name)):
            if hasattr(backend, known):
                return getattr(backend, known)
        return getattr(self._whole(backend), name)

    def _whole(self, backend):
        """A process group with this backend alone: it has methods of which Python does not see a backend's own."""
        for made, whole in self._groups:
            if made is backend:
                return whole
        whole = dist.ProcessGroup(self._rank, self._size)
        kind = dist.ProcessGroup.BackendType.GLOO if backend is self._made.get("gloo") else dist.ProcessGroup.BackendType.NCCL
        for device in ("cpu", "cuda") if kind == dist.ProcessGroup.BackendType.GLOO else ("cuda",):
            whole._register_backend(torch.device(device), kind, backend)
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
        if not dist.is_nccl_available():
            raise Error('this PyTorch has no nccl for what Weir does not do; name another: weir.torch.Options(others="gloo")')
        options = dist.ProcessGroupNCCL.Options()
        options._timeout = self._timeout
        return dist.ProcessGroupNCCL(dist.PrefixStore(prefix("nccl"), self._store), self._rank, self._size, options)


def _gather_each(backend, outputs, inputs, opts=None):
    """One tensor after the other, which gloo does for cuda tensors as well."""
    works = [backend._allgather_base(output, given) for output, given in zip(outputs, inputs)]
    for work in works[:-1]:
        work.wait()
    return works[-1]


def gather_batches(kind):
    """Has batch_isend_irecv gather the calls of process groups of a kind whose other backend can. torch asks the backend only of
    groups that are of no subclass, and on others an exchange by nccl does not come to an end."""
    c10d = dist.distributed_c10d
    usual = dist.batch_isend_irecv

    @functools.wraps(usual)
    def batch_isend_irecv(p2p_op_list):
        first = p2p_op_list[0] if p2p_op_list else None
        group = getattr(first, "group", None) or dist.group.WORLD
        if not isinstance(group, kind) or not hasattr(c10d, "_coalescing_manager"):
            return usual(p2p_op_list)
        device = first.tensor.device
        if not getattr(group._get_backend(device), "supports_coalescing", False):
            return usual(p2p_op_list)
        c10d._check_p2p_op_list(p2p_op_list)
        try:
            with c10d._coalescing_manager(group, device, async_ops=True) as gathered:
                for op in p2p_op_list:
                    op.op(op.tensor, op.peer, op.group, op.tag)
        finally:  # torch would take all_reduces for part of the batch for ever after an error
            c10d._world.pg_coalesce_state.pop(group, None)
        return gathered.works

    c10d.batch_isend_irecv = dist.batch_isend_irecv = batch_isend_irecv


def _first_tensor(value):
    if isinstance(value, torch.Tensor):
        return value
    if isinstance(value, dict):
        value = value.values()
    if isinstance(value, (list, tuple)) or hasattr(value, "__iter__") and not isinstance(value, (str, bytes)):
        for part in value:
            found = _first_tensor(part)
            if found is not None:
                return found
    return None
