"""What of the other backend's work gloo is given for tensors on a GPU, with a gloo that writes it down. Needs no GPU. Prints "right"."""

import datetime

import torch
import torch.distributed as dist
import weir
from weir._torch_others import Others


class Far(torch.Tensor):
    """A tensor that says that it lies on a GPU."""

    device = property(lambda self: torch.device("cuda", 0))
    is_cuda = True


class Work:
    def __init__(self, name):
        self.name = name

    def wait(self):
        calls.append(f"wait for {self.name}")


class Gloo:
    def _allgather_base(self, output, given):
        calls.append(f"gather {len(output)}")
        return Work(f"gather {len(output)}")

    def send(self, *_):
        calls.append("send")


def far(n):
    return torch.ones(n).as_subclass(Far)


calls = []
others = Others({"cpu": "gloo", "cuda": "gloo"}, dist.HashStore(), 0, 1, datetime.timedelta(seconds=10))
others._made["gloo"] = Gloo()
for name, said in (("send", "send"), ("recv_anysource", "recv from any rank"), ("allgather_coalesced", "all_gather of several tensors")):
    try:
        others.method(name, (([far(3)], 1, 0), {}))
    except weir.Error as error:
        assert f"gloo does no {said} for cuda tensors" in str(error), error
    else:
        raise AssertionError(name)
others.method("send", (([torch.ones(3)], 1, 0), {}))([torch.ones(3)], 1, 0)
given = [far(4), far(6)], [far(2), far(3)]
last = others.method("allgather_into_tensor_coalesced", (given, {}))(*given)
assert calls == ["send", "gather 4", "gather 6", "wait for gather 4"], calls
assert last.name == "gather 6"
print("right")
