"""What torch.distributed keeps for backends whose name or class it knows, for groups of Weir as well."""

import datetime
import functools

import torch.distributed as dist

c10d = dist.distributed_c10d


def register(kind):
    """Has functions of torch.distributed take process groups of a kind."""
    for make in (_batches, _monitored):
        function = make(kind)
        setattr(c10d, function.__name__, function)
        setattr(dist, function.__name__, function)


def _batches(kind):
    """batch_isend_irecv that gathers the calls of groups whose other backend can. torch asks the backend only of groups that are of
    no subclass, and on others an exchange by nccl does not come to an end."""
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

    return batch_isend_irecv


def _monitored(kind):
    """monitored_barrier that asks the group's other backend, where torch asks for the name gloo."""
    usual = dist.monitored_barrier

    @functools.wraps(usual)
    def monitored_barrier(group=None, timeout=None, wait_all_ranks=False):
        whole = group if group is not None else dist.group.WORLD
        if not isinstance(whole, kind):
            return usual(group, timeout, wait_all_ranks)
        if timeout is None:
            timeout = c10d.default_pg_timeout
        if isinstance(timeout, (int, float)):
            timeout = datetime.timedelta(seconds=timeout)
        if not isinstance(timeout, datetime.timedelta):
            raise TypeError(f"monitored_barrier: the timeout is a {type(timeout).__name__}; give a datetime.timedelta")
        return whole.monitored_barrier(timeout, wait_all_ranks)

    return monitored_barrier
