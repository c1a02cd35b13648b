"""The store of the rendezvous under weir run: USE_LIBUV is heeded, and a torch that was built without libuv needs no word. With
"store" the ranks look at the store that they got, otherwise a store is made that writes down how."""

import os
import sys

import torch
import torch.distributed as dist
import weir.torch
from weir import _torch_join

if "store" in sys.argv:
    dist.init_process_group("weir")
    store = dist.distributed_c10d._get_default_store()
    while hasattr(store, "underlying_store"):
        store = store.underlying_store
    assert not getattr(store, "libuvBackend", False)
    x = torch.ones(2)
    dist.all_reduce(x)
    assert x.tolist() == [2, 2]
    dist.barrier()
    dist.destroy_process_group()
    sys.stdout.write("right\n")
    sys.exit()


class TCPStore:
    built = True

    def __init__(self, host, port, size, first, timeout, wait_for_workers, use_libuv=True):
        """__init__(…, use_libuv: bool = True)"""
        if use_libuv and not self.built:
            raise RuntimeError("use_libuv was requested but PyTorch was build without libuv support")
        self.libuv = use_libuv


class Older:
    def __init__(self, host, port, size, first, timeout, wait_for_workers):
        """__init__(…)"""
        self.libuv = None


def made(kind, built, word):
    dist.TCPStore, kind.built = kind, built
    os.environ.pop("USE_LIBUV", None)
    if word is not None:
        os.environ["USE_LIBUV"] = word
    return _torch_join._store(0, 2, True, None).libuv


assert made(TCPStore, True, None) is True
assert made(TCPStore, True, "0") is False
assert made(TCPStore, True, "1") is True
assert made(TCPStore, False, None) is False
assert made(TCPStore, False, "0") is False
try:
    made(TCPStore, False, "1")
except RuntimeError as error:
    assert "without libuv" in str(error), error
else:
    raise AssertionError("made a store with libuv where there is none")
for word in (None, "0", "1"):
    assert made(Older, True, word) is None
print("right")
