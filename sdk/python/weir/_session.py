"""A process's membership in a job."""

from ctypes import byref, c_int32, c_uint64, sizeof

from . import _library
from ._group import Group


class Session:
    """What join returns. world is the group of all ranks. It is a context manager that leaves the job at its end."""

    def __init__(self, library, handle):
        self._library, self._handle = library, handle
        world = c_uint64()
        _library.check(library.weir_world(handle, byref(world)))
        self.world = Group(library, world.value)

    def new_group(self, ranks, timeout=None):
        """A group of some ranks, in this order. Every member calls it with the same list; nobody else does."""
        members = (c_int32 * len(ranks))(*ranks)
        group = c_uint64()
        _library.check(
            self._library.weir_new_group(
                self._handle, members, len(ranks), _library.milliseconds(timeout), byref(group)
            )
        )
        return Group(self._library, group.value)

    def close(self):
        """Closes all groups and leaves the job; it waits for nobody."""
        _library.check(self._library.weir_leave(self._handle))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def join(rank=None, world_size=None, socket=None, device=None, timeout=None):
    """Joins the job of the agent and waits until every rank has; returns a Session.

    What is not given comes from the variables that `weir run` sets: WEIR_RANK, WEIR_WORLD_SIZE, WEIR_AGENT_SOCKET; device, a GPU by
    its index, UUID or PCI bus id, or "auto", from WEIR_DEVICE if that is set. timeout is in seconds; without one the
    agent's group.join_deadline holds.
    """
    library = _library.load()
    if (rank is None) != (world_size is None):
        raise _library._errors.Invalid("give rank and world_size, or neither")
    options = _library.Options(
        sizeof(_library.Options),
        None if socket is None else str(socket).encode(),
        rank or 0,
        world_size or 0,
        None if device is None else str(device).encode(),
        _library.milliseconds(timeout),
    )
    session = c_uint64()
    _library.check(library.weir_join(byref(options), byref(session)))
    return Session(library, session.value)
