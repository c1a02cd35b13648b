"""The backends that do for a process group what Weir does not."""

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


class Others:
    """The other backends of one process group, by kind of device. gloo's is made at once, since all ranks must meet for it."""

    def __init__(self, names, store, rank, size, timeout):
        self._names, self._store, self._rank, self._size, self._timeout = names, store, rank, size, timeout
        self._made = {}
        if "gloo" in names.values():
            self._made["gloo"] = dist.ProcessGroupGloo(dist.PrefixStore(prefix("gloo"), store), rank, size, timeout=timeout)

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

    def _nccl(self):
        if not dist.is_nccl_available():
            raise Error('this PyTorch has no nccl for what Weir does not do; name another: weir.torch.Options(others="gloo")')
        options = dist.ProcessGroupNCCL.Options()
        options._timeout = self._timeout
        return dist.ProcessGroupNCCL(dist.PrefixStore(prefix("nccl"), self._store), self._rank, self._size, options)


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
