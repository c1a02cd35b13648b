"""What collectives return: a Work of torch's for what has been made already, or one that ends with the other backend's."""

import functools

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import _create_work_from_future

_Work = dist.distributed_c10d.Work


def completed(tensors):
    """A Work of calls that have been made: host memory holds the result, and streams of devices come to it."""
    devices = sorted({t.device.index for t in tensors if t.is_cuda})
    future = torch.futures.Future(devices=[torch.device("cuda", d) for d in devices]) if devices else torch.futures.Future()
    future.set_result(list(tensors))
    return _create_work_from_future(future)


class Finished(_Work):
    """A Work that ends when another has and something is done with its result, once."""

    # Before torch 2.7 its C++ keeps only its own half of a Work, and waits for ever for one whose other half is gone.
    _kept = set()

    def __init__(self, work, finish, tensors):
        super().__init__()
        self._work, self._finish, self._tensors = work, finish, tensors
        self._kept.add(self)

    def wait(self, *timeout):
        """Waits for the other, finishes, and returns True."""
        try:
            self._work.wait(*timeout)
            finish, self._finish = self._finish, None
            if finish is not None:
                finish()
        finally:
            if self._work.is_completed():
                self._kept.discard(self)
        return True

    def is_completed(self):
        """Whether the other has ended."""
        return self._work.is_completed()

    def is_success(self):
        """Whether the other has ended well."""
        return self._work.is_success()

    def result(self):
        """The tensors with the result, of a Work that was waited for."""
        return self._tensors

    def synchronize(self):
        """As wait."""
        self.wait()

    def get_future(self):
        """A Future of the tensors."""

        def done(future):
            future.value()  # raises what the other ended with
            self.wait()
            return self._tensors

        return self._work.get_future().then(done)


def _bounded(usual):
    """Work.wait that takes a timeout also of what torch makes of a Future, which is no error if it has ended."""

    @functools.wraps(usual)
    def wait(self, *timeout, **named):
        if not timeout and not named:
            return usual(self)
        try:
            return usual(self, *timeout, **named)
        except RuntimeError as error:
            if "finite timeout not implemented" not in str(error) or not self.is_completed():
                raise
            return usual(self)

    return wait


def register():
    """Has Work.wait take a timeout of what completed returns."""
    _Work.wait = _bounded(_Work.wait)
