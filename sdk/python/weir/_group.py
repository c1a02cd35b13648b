"""Groups of ranks."""

import ctypes
from ctypes import byref, c_int32, c_uint64

from . import _array, _library
from ._errors import Invalid


class Group:
    """Ranks that all-reduce together. All make the same calls on it in the same order, one at a time.

    rank is this process's rank in it, size the number of ranks, ranks the members by their rank in the group of all.
    """

    def __init__(self, library, handle):
        self._library, self._handle = library, handle
        rank, size = c_int32(), c_int32()
        _library.check(library.weir_rank(handle, byref(rank)))
        _library.check(library.weir_size(handle, byref(size)))
        members = (c_int32 * size.value)()
        _library.check(library.weir_ranks(handle, members, size))
        self.rank, self.size, self.ranks = rank.value, size.value, list(members)

    def all_reduce(self, array, op="sum", out=None, stream=None):
        """Combines array over all ranks, into out or in place, and returns what holds the result.

        array and out are numpy arrays or torch tensors of the same type and number of elements, in one piece. op is sum, prod,
        min, max or avg. Host memory holds the result at return. On a CUDA tensor the call is enqueued on the current
        stream, or on the CUDA stream whose handle is given, and becomes part of a graph that is being captured
        (after warm(..., captured=True)).
        """
        target = array if out is None else out
        src, count, data_type, device, order = _array.describe(array, written=out is None)
        dst = src
        if out is not None:
            dst, n, other, place, lies = _array.describe(out, written=True)
            if (n, other, place) != (count, data_type, device):
                raise Invalid("out has another number of elements, type or device than the array")
            if lies != order:
                raise Invalid("out has its elements in another order than the array, by rows or by columns")
        kind = _array.number(_array.OPS, op, "op")
        if device is None:
            code = self._library.weir_all_reduce(self._handle, dst, src, count, data_type, kind)
        else:
            if stream is None:
                import torch

                stream = torch.cuda.current_stream(device).cuda_stream
            code = self._library.weir_all_reduce_device(self._handle, dst, src, count, data_type, kind, stream)
        if code != 0:
            _library.check(code)
        return target

    def warm(self, dtype, op="sum", memory="host", captured=False, timeout=None):
        """Decides a request class before its first call. All ranks call it alike. memory is host or cuda; captured is for
        calls inside CUDA graphs, whose class must be decided before the capture."""
        c = self._class(dtype, op, memory, captured)
        _library.check(self._library.weir_warm(self._handle, byref(c), 1, _library.milliseconds(timeout)))

    def backend(self, dtype, nbytes, op="sum", memory="host", captured=False):
        """The name of the backend that serves calls of a class and number of bytes; None if nobody does, or before its first
        call."""
        name = ctypes.create_string_buffer(256)
        c = self._class(dtype, op, memory, captured)
        _library.check(self._library.weir_backend(self._handle, byref(c), nbytes, name, len(name)))
        return name.value.decode() or None

    @staticmethod
    def _class(dtype, op, memory, captured):
        return _library.Class(
            _array.number(_array.MEMORIES, memory, "memory kind"),
            _array.data_type(dtype),
            _array.number(_array.OPS, op, "op"),
            bool(captured),
        )

    def split(self, color, key=0, timeout=None):
        """Parts the group by color, in order of key and then rank; None on ranks that give a negative color. All ranks call it."""
        part = c_uint64()
        _library.check(self._library.weir_split(self._handle, color, key, _library.milliseconds(timeout), byref(part)))
        return Group(self._library, part.value) if part.value else None

    def exchange(self, data, timeout=None):
        """Every rank's bytes, by rank. All give the same number, at most 64 KiB: it is for set-up."""
        everyone = ctypes.create_string_buffer(max(1, len(data) * self.size))
        _library.check(
            self._library.weir_exchange(self._handle, bytes(data), len(data), everyone, _library.milliseconds(timeout))
        )
        return [everyone.raw[len(data) * r : len(data) * (r + 1)] for r in range(self.size)]

    def barrier(self, timeout=None):
        """Waits until all ranks have called it."""
        self.exchange(b"", timeout)

    def abort(self, reason):
        """Makes the group fail on all ranks, with a reason: calls that wait return, and what waits on the device leaves. Another
        thread may call it while a call is in progress."""
        _library.check(self._library.weir_abort(self._handle, str(reason).encode()))

    def check(self):
        """Raises GroupFailed if the group has failed. It waits for nothing, the device neither, and may be polled."""
        _library.check(self._library.weir_group_error(self._handle))

    def close(self):
        """Leaves the group."""
        _library.check(self._library.weir_close(self._handle))
