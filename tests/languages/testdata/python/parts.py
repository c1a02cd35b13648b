"""Runs the parts of a script on each of two ranks: those that are named, or all; goes on after one that is wrong."""

import datetime
import sys
import traceback
import warnings

import torch
import torch.distributed as dist
import weir.torch  # noqa: F401

version = tuple(int(part) for part in torch.__version__.split(".")[:2])
warnings.simplefilter("ignore")
dist.init_process_group("weir", timeout=datetime.timedelta(seconds=120))
rank, size = dist.get_rank(), dist.get_world_size()
assert size == 2


class Skip(Exception):
    pass


def since(*wanted):
    if version < wanted:
        raise Skip(f"needs PyTorch {wanted[0]}.{wanted[1]}")


def same(got, want):
    got = [each.tolist() for each in got] if isinstance(got, (list, tuple)) else got.tolist()
    assert got == want, f"{got}, want {want}"


def raises(kind, words, call):
    try:
        call()
    except kind as error:
        assert words in str(error), f"{error}; want {words}"
    else:
        raise AssertionError(f"no error, want {words}")


def run(*parts):
    """Prints "right" at the end if no part was wrong. Of one that this PyTorch has not it is said that it is skipped."""
    wrong = []
    for part in parts:
        if sys.argv[1:] and part.__name__ not in sys.argv[1:]:
            continue
        dist.barrier()
        try:
            part()
            said = "ok"
        except Skip as why:
            said = f"skipped, {why}"
        except Exception:
            traceback.print_exc()
            said = "wrong"
            wrong.append(part.__name__)
        sys.stdout.write(f"{part.__name__} of rank {rank}: {said}\n")
    dist.barrier()
    dist.destroy_process_group()
    if wrong:
        sys.exit(f"wrong on rank {rank}: {', '.join(wrong)}")
    sys.stdout.write("right\n")
