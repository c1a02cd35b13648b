"""numpy arrays and torch tensors over a group, every kind of error, threads, and a fork. For 2 ranks; torch may be missing."""

import os
import sys
import threading
import time

import numpy
import weir


def raises(kind, words, call):
    try:
        call()
    except weir.Error as error:
        assert type(error) is kind and words in str(error), f"{type(error).__name__}: {error}; want {kind.__name__} with {words}"
    else:
        sys.exit(f"no error; want {kind.__name__} with {words}")


session = weir.join()
world = session.world
assert world.size == 2 and world.ranks == [0, 1], world.ranks

# In place and out of place, all types and ops.
for name in ("float32", "float64", "float16", "int8", "uint8", "int32", "int64"):
    for op, want in {"sum": 3, "prod": 2, "min": 1, "max": 2, "avg": 1.5 if "float" in name else 1}.items():
        a = numpy.full((3, 5), world.rank + 1, dtype=name)
        out = numpy.zeros((3, 5), dtype=name)
        assert world.all_reduce(a, op, out=out) is out
        assert (out == want).all() and (a == world.rank + 1).all(), (name, op, out)
        assert world.all_reduce(a, op) is a and (a == want).all(), (name, op, a)
columns = numpy.asfortranarray(numpy.full((2, 3), 1.0 + world.rank))
assert (world.all_reduce(columns) == 3).all()
assert (world.all_reduce(columns, out=numpy.zeros_like(columns)) == 6).all()


class Foreign:
    """What says where it lies and is no array of numpy's."""

    def __init__(self, array, **other):
        self.array = array
        self.__array_interface__ = {**array.__array_interface__, **other}


for name in ("float32", "uint8", "int64", "float16"):
    a = numpy.full((2, 3), world.rank + 1, dtype=name)
    world.all_reduce(Foreign(a))
    assert (a == 3).all(), (name, a)
if "torch" in sys.argv:
    import torch

    for dtype in (torch.float32, torch.bfloat16, torch.int64):
        t = torch.full((7,), world.rank + 1, dtype=dtype)
        assert (world.all_reduce(t, "prod") == 2).all()
    assert (world.all_reduce(torch.ones(3, requires_grad=True).detach()) == 2).all()
    raises(weir.Invalid, "one piece", lambda: world.all_reduce(torch.ones(4, 4).t()[1:]))
    raises(weir.Invalid, "complex64", lambda: world.all_reduce(torch.ones(4, dtype=torch.complex64)))

# Errors. Those that are found before the library is called leave the group as it was.
good = numpy.ones(4, dtype="float32")
fixed = numpy.ones(4, dtype="float32")
fixed.flags.writeable = False
raises(weir.Invalid, "one piece", lambda: world.all_reduce(numpy.ones(8)[::2]))
raises(weir.Invalid, "written", lambda: world.all_reduce(fixed))
raises(weir.Invalid, "byte order", lambda: world.all_reduce(numpy.ones(4, dtype=">f4")))
raises(weir.Invalid, "another order", lambda: world.all_reduce(numpy.ones((2, 3)), out=numpy.asfortranarray(numpy.ones((2, 3)))))
raises(weir.Invalid, "one piece", lambda: world.all_reduce(Foreign(numpy.ones(8)[::2])))
raises(weir.Invalid, "written", lambda: world.all_reduce(Foreign(good, data=(good.ctypes.data, True))))
raises(weir.Invalid, "byte order", lambda: world.all_reduce(Foreign(numpy.ones(4, dtype=">f4"))))
raises(weir.Invalid, "c64", lambda: world.all_reduce(Foreign(numpy.ones(4, dtype="complex64"))))
raises(weir.Invalid, "bool", lambda: world.all_reduce(numpy.ones(4, dtype=bool)))
raises(weir.Invalid, "neither", lambda: world.all_reduce([1.0]))
raises(weir.Invalid, "unknown op", lambda: world.all_reduce(good, "mean"))
raises(weir.Invalid, "out has another", lambda: world.all_reduce(good, out=numpy.ones(5, dtype="float32")))
raises(weir.Invalid, "elements", lambda: world.all_reduce(numpy.ones(0, dtype="float32")))
raises(weir.Invalid, "timeout", lambda: world.barrier(timeout=-1))
raises(weir.Invalid, "data type", lambda: world.warm("float8"))
raises(weir.Error, "rank 2", lambda: session.new_group([0, 2]))
raises(weir.Invalid, "rank and world_size", lambda: weir.join(rank=0))
raises(weir.Error, "no agent answers", lambda: weir.join(0, 1, socket="/nowhere/agent.sock"))
assert (world.all_reduce(fixed, out=good) == 2).all()

world.warm("int32", "max")
assert world.backend("int32", 400, "max") == "shm-flat" and world.backend("int8", 4, "min") == "shm-flat"
assert world.exchange(bytes([world.rank])) == [b"\0", b"\1"]
assert world.split(world.rank - 1) is None if world.rank == 0 else world.split(0).size == 1
turned = session.new_group([1, 0])
assert turned.rank == 1 - world.rank

# Threads, each with a group of its own.
groups = [session.new_group([0, 1]) for _ in range(3)]


def work(group):
    for n in range(1, 100):
        assert (group.all_reduce(numpy.full(n, 1.0)) == 2).all()


threads = [threading.Thread(target=work, args=(g,)) for g in groups]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()

# A process that was forked is told so, at once.
child = os.fork()
if child == 0:
    try:
        world.all_reduce(good)
    except weir.Forked:
        os._exit(7)
    os._exit(1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7

# Ranks that disagree: an error on both that says who called what; the other groups go on.
raises(weir.GroupFailed, "rank 0", lambda: turned.all_reduce(numpy.ones(3 + world.rank)))
raises(weir.GroupFailed, "disagree", turned.check)
world.check()
turned.close()
raises(weir.Closed, "not open", lambda: turned.all_reduce(good))
world.barrier()
session.close()
raises(weir.Closed, "not open", session.close)
sys.stdout.write("right\n")  # in one piece: torchrun runs ranks without buffers
