"""How a process of torch.distributed becomes a rank of Weir: under weir run, under torchrun, or beside an agent."""

import atexit
import datetime
import importlib
import os

import torch
import torch.distributed as dist

from . import _agent
from ._errors import Error
from ._session import join

rendezvous = importlib.import_module("torch.distributed.rendezvous")  # a function has the name in torch.distributed

_AGENT_PATIENCE = datetime.timedelta(seconds=60)

_session = None
_count = 0  # default groups that this process has made: keys in a store that outlives them differ
_fresh = False  # joined for a rendezvous, and not yet used by a group
_joined = ""  # the GPU that this process has joined with


def session():
    """The session of this process; None before the first group."""
    return _session


def prefix(name):
    """The name in the store of what belongs to the default group of now. torchrun may keep one store for all its attempts."""
    return f"{name}/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}/{_count}"


def join_as(rank, size, store, device, timeout):
    """Joins for the default group. One that was destroyed before is left first."""
    global _session, _fresh, _count, _joined
    _count += 1
    wanted = _device(rank, device)
    if _session is not None and not (_fresh and _as_wanted(wanted)):
        leave()
    if _session is None:
        _session, _joined = join(rank, size, _socket(rank, size, store), wanted, timeout), wanted
    _fresh = False
    if (_session.world.rank, _session.world.size) != (rank, size):
        raise Error(
            f"torch says rank {rank} of {size}, Weir rank {_session.world.rank} of {_session.world.size}; "
            "under weir run leave RANK and WORLD_SIZE to it"
        )
    return _session


def _as_wanted(device):
    """Whether all ranks have joined for the rendezvous with the GPU that the group's options want: it knows no options."""
    return not any(int(answer) for answer in _session.world.exchange(b"0" if device == _joined else b"1"))


def leave(group=None):
    """Leaves a group, or with that of all ranks the job, at the end of the process at the latest."""
    global _session
    left = group
    if group is None or _session is not None and group is _session.world:
        left, _session = _session, None
    if left is not None:
        try:
            left.close()
        except Error:
            pass  # the agent sees the process end


def _socket(rank, size, store):
    """The agent's socket: as the environment says, or that of an agent which rank 0 starts."""
    named = os.environ.get("WEIR_AGENT_SOCKET")
    if named:
        return named
    local = int(os.environ.get("LOCAL_WORLD_SIZE", size))
    if local != size:
        raise Error(f"Weir serves the ranks of one host, and of {size} ranks {local} are on this one")
    key = prefix("weir/agent")
    if rank == 0:
        try:
            answer = "+" + _agent.start(size)
        except Error as error:
            answer = "-" + str(error)
        store.set(key, answer)
    else:
        try:
            store.wait([key], _AGENT_PATIENCE)
        except Exception as error:
            raise Error(f"rank 0 has not started an agent within {_AGENT_PATIENCE.total_seconds():.0f} s") from error
        answer = store.get(key).decode()
    if answer[0] == "-":
        raise Error(answer[1:])
    return answer[1:]


def _device(rank, named):
    """The GPU to join with; "" for none."""
    if named is not None:
        return named
    if os.environ.get("WEIR_DEVICE"):
        return os.environ["WEIR_DEVICE"]
    if not torch.cuda.is_available():
        return ""
    current = torch.cuda.current_device()
    if current == 0:  # nobody has chosen one
        current = int(os.environ.get("LOCAL_RANK", rank)) % torch.cuda.device_count()
    return str(current)


def register():
    """Makes init_process_group work under weir run, which gives no address at which ranks could meet: they meet at the agent."""
    if "WEIR_AGENT_SOCKET" in os.environ and not {"RANK", "WORLD_SIZE", "MASTER_ADDR"} & set(os.environ):
        for theirs, ours in (("RANK", "WEIR_RANK"), ("WORLD_SIZE", "WEIR_WORLD_SIZE")):
            if ours in os.environ:
                os.environ[theirs] = os.environ["LOCAL_" + theirs] = os.environ[ours]
    rendezvous.register_rendezvous_handler("weir", _meet)
    handlers = getattr(rendezvous, "_rendezvous_handlers", {})
    usual = handlers.get("env")
    if usual is not None:

        def environment(url, *args, **kwargs):
            if "MASTER_ADDR" not in os.environ and "WEIR_AGENT_SOCKET" in os.environ:
                return _meet(url, *args, **kwargs)
            return usual(url, *args, **kwargs)

        handlers["env"] = environment
    atexit.register(leave)


def _meet(url, timeout=dist.distributed_c10d.default_pg_timeout, **_):
    """The rendezvous weir://: rank 0 opens a store at a free port, and the agent tells the others."""
    global _session, _fresh, _joined
    leave()
    _joined = _device(int(os.environ["WEIR_RANK"]), None)
    _session, _fresh = join(device=_joined), True
    world = _session.world
    store, port = None, 0
    if world.rank == 0:
        store = _store(0, world.size, True, timeout)
        port = store.port
    port = int.from_bytes(world.exchange(port.to_bytes(4, "little"))[0], "little")
    if store is None:
        store = _store(port, world.size, False, timeout)
    yield store, world.rank, world.size
    raise RuntimeError("weir:// has no second rendezvous")


def _store(port, size, first, timeout):
    """A store at this host's address, without libuv where USE_LIBUV says so, as for init_process_group, or torch was built without."""
    knows = "use_libuv" in (dist.TCPStore.__init__.__doc__ or "")

    def store(**more):
        return dist.TCPStore("127.0.0.1", port, size, first, timeout, wait_for_workers=False, **more)

    wanted = os.environ.get("USE_LIBUV")
    if knows and wanted is not None:
        return store(use_libuv=wanted == "1")
    try:
        return store()
    except RuntimeError as error:
        if not knows or "libuv" not in str(error):
            raise
        return store(use_libuv=False)
