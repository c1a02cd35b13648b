"""A restart by torchrun, from PyTorch 2.4 on: the ranks of all attempts meet in one store, and only TORCHELASTIC_RESTART_COUNT says
which attempt it is. What the first left there must not be taken for the second's. It starts its ranks itself."""

import datetime
import multiprocessing
import os
import sys
import time

import torch
import torch.distributed as dist


def store(port, master):
    more = {"use_libuv": False} if "use_libuv" in (dist.TCPStore.__init__.__doc__ or "") else {}
    return dist.TCPStore("127.0.0.1", port, None, master, datetime.timedelta(seconds=120), wait_for_workers=False, **more)


def main(rank, port, attempt, ready):
    os.environ.update(TORCHELASTIC_RESTART_COUNT=str(attempt), TORCHELASTIC_RUN_ID="a", LOCAL_WORLD_SIZE="2", LOCAL_RANK=str(rank))
    import weir.torch  # noqa: F401

    if rank == 0:  # begins when the other looks for what it will write
        assert ready.wait(120)
        time.sleep(0.5)
    else:
        ready.set()
    meeting = store(port, False)
    if tuple(map(int, torch.__version__.split(".")[:2])) < (2, 4):  # torchrun had them meet apart
        meeting = dist.PrefixStore(f"/worker/attempt_{attempt}", meeting)
    dist.init_process_group("weir", store=meeting, rank=rank, world_size=2, timeout=datetime.timedelta(seconds=120))
    x = torch.ones(2)
    dist.all_reduce(x)
    dist.broadcast(x, 0)
    assert x.tolist() == [2, 2]
    if attempt == 0:
        os._exit(0)  # as if killed: it leaves all that it wrote to the store
    dist.destroy_process_group()
    sys.stdout.write("right\n")


if __name__ == "__main__":
    server = store(0, True)
    spawn = multiprocessing.get_context("spawn")
    for attempt in (0, 1):
        ready = spawn.Event()
        ranks = [spawn.Process(target=main, args=(rank, server.port, attempt, ready)) for rank in (0, 1)]
        for process in ranks:
            process.start()
        for process in ranks:
            process.join(150)
            assert process.exitcode == 0, f"attempt {attempt}: a rank ended with {process.exitcode}"
