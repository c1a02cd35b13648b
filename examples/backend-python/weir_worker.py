"""The memory that ranks share with a worker: version 1 of docs/worker-abi.md.

Python itself has no atomic operations on shared memory. They are those of libatomic, the C compiler's run-time library
(Debian: libatomic1), called by ctypes: a load with acquire order and a compare-and-swap are what they are in C, on every
processor. A futex has no wrapper in the C library either; it is called by its number. While ctypes is in a call other
threads of the interpreter run, so a worker that sleeps holds up nobody.
"""

import ctypes
import mmap
import os
import platform
import socket
import struct

import numpy

MAGIC, VERSION, GREETING = 0x4B525744, 1, b"WEIRWRKR"
DONE, FAILED = 1, 2

DATA_TYPES = ["float32", "float64", "float16", "bfloat16", "int8", "uint8", "int32", "int64"]
SIZES = [4, 8, 2, 2, 1, 1, 4, 8]
OPS = ["sum", "prod", "min", "max", "avg"]

_DOORBELL, _ASLEEP, _BELL, _WAITING, _STOP = 64, 68, 128, 132, 192  # offsets in the control file
_LINE = 64
_CONNECT_SECONDS = 5
_NAP_SECONDS = 0.05  # longest sleep between two looks at whether the agent is there
_SPINS = 50  # looks before a sleep; each takes a microsecond or two here

# The memory orders of C and C++, by the numbers that libatomic takes.
_ACQUIRE, _RELEASE, _SEQ_CST = 2, 3, 5
_FUTEX_WAIT, _FUTEX_WAKE = 0, 1  # without FUTEX_PRIVATE_FLAG: between processes
_SYS_FUTEX = {"x86_64": 202, "aarch64": 98}.get(platform.machine())

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def _function(name, result, *arguments):
    f = getattr(_libatomic, name)
    f.restype, f.argtypes = result, arguments
    return f


try:
    _libatomic = ctypes.CDLL("libatomic.so.1")
except OSError as e:
    raise ImportError(f"{e}: install it, on Debian with `apt install libatomic1`") from e
_load4 = _function("__atomic_load_4", ctypes.c_uint32, ctypes.c_void_p, ctypes.c_int)
_load8 = _function("__atomic_load_8", ctypes.c_uint64, ctypes.c_void_p, ctypes.c_int)
_add4 = _function("__atomic_fetch_add_4", ctypes.c_uint32, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int)
_swap8 = _function(
    "__atomic_compare_exchange_8", ctypes.c_bool, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_int, ctypes.c_int
)


class _Timespec(ctypes.Structure):
    _fields_ = [("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long)]


def completion(tile, state):
    """The completion word of a tile: its number's lower half, and above it what became of it."""
    return state << 32 | tile & 0xFFFFFFFF


class Tile:
    """A part of an all-reduce: combine inputs, one array of bytes for each rank, into out, which is as long.

    The tiles of a call have its number in call, 0 in the ranks' self-test, and its length in call_bytes. Numbers count all calls
    of the group, those that this worker does not see too.

    The arrays are shared memory. They may be used until the tile is completed; the inputs can only be read. View them as
    what they are, such as inputs[0].view(numpy.float32).
    """

    __slots__ = ("call", "call_bytes", "data_type", "op", "inputs", "out")

    def __init__(self, call, call_bytes, data_type, op, inputs, out):
        self.call, self.call_bytes, self.data_type, self.op, self.inputs, self.out = call, call_bytes, data_type, op, inputs, out


class Memory:
    """The two files, mapped: control for reading and writing, inputs for reading."""

    def __init__(self, control, inputs):
        if len(control) < 256:
            raise ValueError(f"control memory of {len(control)} bytes")
        self._keep = (ctypes.c_char * len(control)).from_buffer(control)
        self._at = ctypes.addressof(self._keep)
        self.control = numpy.frombuffer(control, numpy.uint8)
        self.inputs = numpy.frombuffer(inputs, numpy.uint8)
        magic, version, self.world, self.slots = struct.unpack_from("=4I", control, 0)
        self.slot_bytes, self._completions, self._records, self._outputs = struct.unpack_from("=4Q", control, 16)
        if magic != MAGIC or version != VERSION:
            raise ValueError(f"memory that begins with {magic:#x}, version {version}; this worker knows {MAGIC:#x}, version {VERSION}")
        if self.output_offset(self.slots) > len(control) or self.input_offset(self.world, 0) > len(inputs):
            raise ValueError(f"{len(control)} and {len(inputs)} bytes hold less than the header says")

    def slot(self, tile):
        return (tile - 1) % self.slots

    def completion_offset(self, slot):
        return self._completions + _LINE * slot

    def record_offset(self, rank, slot):
        return self._records + _LINE * (rank * self.slots + slot)

    def output_offset(self, slot):
        return self._outputs + slot * self.slot_bytes

    def input_offset(self, rank, slot):
        return (rank * self.slots + slot) * self.slot_bytes

    def arrived(self, tile):
        """Whether every rank has filled its slot for a tile."""
        slot = self.slot(tile)
        return all(_load8(self._at + self.record_offset(r, slot), _ACQUIRE) >= tile for r in range(self.world))

    def stopped(self):
        return _load4(self._at + _STOP, _ACQUIRE) != 0

    def tile(self, number):
        """The tile, for which every rank has arrived; None if they do not say the same of it, or what is impossible."""
        slot = self.slot(number)
        record = slice(8, 40)  # all but the tile's number
        said = {bytes(self.control[self.record_offset(r, slot) :][record]) for r in range(self.world)}
        call, length, call_bytes, data_type, op = struct.unpack("=3Q2I", next(iter(said)))
        if len(said) != 1 or data_type >= len(SIZES) or op >= len(OPS) or not 0 < length <= self.slot_bytes or length % SIZES[data_type]:
            return None
        inputs = [self.inputs[self.input_offset(r, slot) :][:length] for r in range(self.world)]
        return Tile(call, call_bytes, DATA_TYPES[data_type], OPS[op], inputs, self.control[self.output_offset(slot) :][:length])

    def complete(self, tile):
        """Says that a tile is done; false if it had been given up. It is the last thing that is done to a tile."""
        word = self._at + self.completion_offset(self.slot(tile))
        before = ctypes.c_uint64(_load8(word, _ACQUIRE))
        if before.value >> 32 == FAILED:
            return False
        # Release order: who sees the word sees the output. One who loses the race finds that the agent has given it up.
        if not _swap8(word, ctypes.addressof(before), completion(tile, DONE), _RELEASE, _ACQUIRE):
            return False
        _add4(self._at + _BELL, 1, _SEQ_CST)
        if _load4(self._at + _WAITING, _SEQ_CST):
            _futex(self._at + _BELL, _FUTEX_WAKE, 0x7FFFFFFF, None)
        return True

    def await_doorbell(self, ready, seconds):
        """Sleeps until the doorbell rings, unless ready() says that there is no need, at most so long."""
        _add4(self._at + _ASLEEP, 1, _SEQ_CST)
        before = _load4(self._at + _DOORBELL, _SEQ_CST)
        if not ready():  # looked at after who rings can know of the sleeper
            nanoseconds = int(seconds * 1e9)
            _futex(self._at + _DOORBELL, _FUTEX_WAIT, before, _Timespec(nanoseconds // 10**9, nanoseconds % 10**9))
        _add4(self._at + _ASLEEP, 0xFFFFFFFF, _SEQ_CST)


def _futex(address, operation, value, timeout):
    if _SYS_FUTEX is None:
        raise OSError(f"the number of the futex call on {platform.machine()} is not known: add it to _SYS_FUTEX")
    pointer = ctypes.byref(timeout) if timeout is not None else None
    _libc.syscall(
        ctypes.c_long(_SYS_FUTEX), ctypes.c_void_p(address), ctypes.c_long(operation), ctypes.c_long(value), pointer, None, ctypes.c_long(0)
    )


def _check_agent(connection):
    """Refuses an agent of another user, whose memory is not to be worked on."""
    pid, uid, _ = struct.unpack("iII", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    if uid not in (os.geteuid(), 0):
        raise PermissionError(f"process {pid} of user {uid} listens there, neither you ({os.geteuid()}) nor root")


class Group:
    """A group of ranks that is served: what Attach begins."""

    def __init__(self, path):
        """Takes the memory from the agent's socket at path, and tells it how that went."""
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self.socket.settimeout(_CONNECT_SECONDS)
            self.socket.connect(path)
            _check_agent(self.socket)
            try:
                self.memory = Memory(*_receive(self.socket))
            except Exception as e:
                self.socket.sendall(str(e).encode()[:1024])
                raise
            self.socket.sendall(b"\x01")
            self.socket.setblocking(False)
        except BaseException:
            self.socket.close()
            raise

    def over(self):
        """Whether the group needs nobody any more."""
        if self.memory.stopped():
            return True
        try:
            return self.socket.recv(1) == b""  # nothing is ever sent: the end is all that can come
        except BlockingIOError:
            return False
        except OSError:
            return True

    def serve(self, reduce):
        """Has reduce(tile) do tile after tile until the group is over. An error of reduce ends the service, and is raised."""
        memory, number = self.memory, 0
        try:
            while True:
                number += 1
                looks = 0
                while not memory.arrived(number):
                    looks += 1
                    if looks > _SPINS:
                        if self.over():
                            return
                        memory.await_doorbell(lambda: memory.arrived(number) or memory.stopped(), _NAP_SECONDS)
                tile = memory.tile(number)
                if tile is None:
                    continue  # the ranks find it out by themselves and ask for no other tile
                reduce(tile)
                if not memory.complete(number):
                    return
        finally:
            self.socket.close()  # tells the agent that nobody serves


def _receive(connection):
    """The mapped control and inputs, from the agent's first and only message."""
    message, descriptors, _, _ = socket.recv_fds(connection, 16, 2)
    try:
        if len(message) != 16 or message[:8] != GREETING or len(descriptors) != 2:
            raise ValueError("the socket is no agent's for workers")
        (version,) = struct.unpack_from("=I", message, 8)
        if version != VERSION:
            raise ValueError(f"the agent offers version {version} of the worker's memory, this worker knows {VERSION}")
        control, inputs = descriptors
        return (
            mmap.mmap(control, os.fstat(control).st_size, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE),
            mmap.mmap(inputs, os.fstat(inputs).st_size, mmap.MAP_SHARED, mmap.PROT_READ),
        )
    finally:
        for d in descriptors:
            os.close(d)  # the mappings keep the memory
