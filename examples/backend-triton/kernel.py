"""A one-shot all-reduce of float32 in Triton, as sdk/kernel/weir_kernel.h wants it.

Every rank pushes its message into an inbox of each peer and adds up what comes into its own, in rank order. A packet is 8
bytes: a float32 below, the flag of the call above. A buffer holds two inboxes, by the parity of the call's sequence, each of
PART packets for every rank.

What every thread of a program must agree on comes from an atomic operation, which one thread does and tells the others, or
from a reduction over the block: a scalar load of a word that changes is done by every thread for itself.
"""

import triton
import triton.language as tl

# Words of weir_control and weir_status.
BUSY_SEQUENCE = tl.constexpr(0)  # of 64 bits
ENTERED, LEFT, DEAD, SLOW = (tl.constexpr(i) for i in (2, 3, 4, 5))
ABORT, FAULT = tl.constexpr(0), tl.constexpr(1)
WAITING = tl.constexpr(1)  # of 64 bits

IN_FLIGHT, SIZE = tl.constexpr(2), tl.constexpr(3)

PATIENCE = tl.constexpr(1024)  # looks at an inbox between two at the abort word
SLOW_BIT = tl.constexpr(17)  # of what a program adds to LEFT
LOW = tl.constexpr(0xFFFFFFFF)


@triton.jit
def oneshot(
    src, dst, count, rank, world, hash, id, buffers, control, status,
    PART: tl.constexpr, BLOCK: tl.constexpr,
):
    program = tl.program_id(0)
    programs = tl.num_programs(0)
    at = program * BLOCK + tl.arange(0, BLOCK)
    own = at < count
    sent = at < tl.maximum(count, 1)  # a call without elements meets the others as any does
    mine = tl.load(src + at, mask=own, other=0.0)

    words = control.to(tl.pointer_type(tl.int64))
    ticket = tl.atomic_add(control + ENTERED, 1, sem="relaxed", scope="gpu")
    word = tl.atomic_or(words + BUSY_SEQUENCE, id.to(tl.int64) << 32, sem="relaxed", scope="gpu")
    dead = tl.atomic_or(control + DEAD, 0, sem="relaxed", scope="gpu")
    busy = (word >> 32) & LOW
    sequence = word & LOW

    fault = tl.where((count > PART) | (count > programs * BLOCK), SIZE, 0)
    fault = tl.where((ticket >= programs) | ((busy != 0) & (busy != id.to(tl.int64))), IN_FLIGHT, fault)
    if (dead != 0) | (fault != 0):
        if dead == 0:
            before = tl.load(status + FAULT, volatile=True)
            tl.store(status + FAULT, fault, mask=before == 0)
            tl.store(control + DEAD, 1)
        tl.store(dst + at, float("nan"), mask=own)
    else:
        half = (sequence & 1) * world * PART
        flag = ((sequence << 12) | hash.to(tl.int64)) & LOW
        packet = (flag << 32) | (mine.to(tl.int32, bitcast=True).to(tl.int64) & LOW)
        for k in range(1, world):
            peer = (rank + k) % world
            inbox = tl.load(buffers + peer).to(tl.pointer_type(tl.int64))
            tl.store(inbox + half + rank * PART + at, packet, mask=sent)

        here = tl.load(buffers + rank).to(tl.pointer_type(tl.int64)) + half
        if program == programs - 1:  # clears the call's window, in which flags of 2^20 calls ago could lie
            windows = world * (PART // BLOCK)
            stale = ((sequence >> 1) % windows) * BLOCK + tl.arange(0, BLOCK)
            unused = (stale // PART == rank) | (stale % PART >= tl.maximum(count, 1))
            tl.store(here + stale, tl.zeros([BLOCK], tl.int64), mask=unused)

        total = tl.zeros([BLOCK], tl.float32)
        leave = 0
        waited = 0
        for r in range(0, world):
            if r == rank:
                total += mine
            else:
                slots = here + r * PART + at
                packets = tl.load(slots, mask=sent, other=flag << 32, volatile=True)
                missing = tl.max((((packets >> 32) & LOW) != flag).to(tl.int32))
                looks = 1
                while (missing != 0) & (leave == 0):
                    if looks % PATIENCE == 0:
                        tl.store(status.to(tl.pointer_type(tl.int64)) + WAITING, (sequence << 32) | (r + 1))
                        waited = 1
                        leave = tl.max(tl.load(status + ABORT + tl.zeros([BLOCK], tl.int32), volatile=True))
                    looks += 1
                    packets = tl.load(slots, mask=sent, other=flag << 32, volatile=True)
                    missing = tl.max((((packets >> 32) & LOW) != flag).to(tl.int32))
                total += packets.to(tl.int32).to(tl.float32, bitcast=True)
        tl.store(dst + at, tl.where(leave != 0, float("nan"), total), mask=own)
        if leave != 0:
            tl.store(control + DEAD, 1)

        tl.debug_barrier()  # all threads of the program are done
        if waited != 0:  # orders the store to WAITING before the last program's
            tl.atomic_or(control + SLOW, 1, sem="acq_rel", scope="sys")
        left = tl.atomic_add(control + LEFT, 1 + (waited << SLOW_BIT), sem="relaxed", scope="gpu") + 1 + (waited << SLOW_BIT)
        if left % (1 << SLOW_BIT) == programs:
            if left >> SLOW_BIT != 0:
                tl.store(status.to(tl.pointer_type(tl.int64)) + WAITING, 0)
                tl.store(control + SLOW, 0)
            tl.store(control + ENTERED, 0)
            tl.store(control + LEFT, 0)
            tl.atomic_xchg(words + BUSY_SEQUENCE, (sequence + 1) & LOW, sem="release", scope="gpu")
