"""Compiles kernel.py: `python3 build.py`, with Triton 3 or newer, writes oneshot.ptx and oneshot.json here.

No GPU is needed. The PTX is of version 7.0 for sm_80: drivers from CUDA 11.0 on load it for every NVIDIA GPU since Ampere.
"""

import hashlib
import json
import os
import pathlib
import re

os.environ["TRITON_DISABLE_LINE_INFO"] = "1"  # no paths of this machine

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

import kernel

HERE = pathlib.Path(__file__).parent
PART = 16384  # elements of the largest message
BLOCK = 1024  # elements of a program
WARPS = 8  # threads of a program / 32; each element has one thread

# By parameter of the function: Triton's type, and what core/plan calls what it is to be given.
PARAMETERS = {
    "src": ("*fp32", "in"),
    "dst": ("*fp32", "out"),
    "count": ("i64", "count"),
    "rank": ("i32", "rank"),
    "world": ("i32", "world"),
    "hash": ("u32", "hash"),
    "id": ("u32", "id"),
    "buffers": ("*u64", "buffers"),
    "control": ("*i32", "control"),
    "status": ("*i32", "status"),
}


def main():
    source = ASTSource(
        fn=kernel.oneshot,
        signature={name: kind for name, (kind, _) in PARAMETERS.items()} | {"PART": "constexpr", "BLOCK": "constexpr"},
        constexprs={"PART": PART, "BLOCK": BLOCK},
    )
    made = triton.compile(
        source, target=GPUTarget("cuda", 80, 32), options={"num_warps": WARPS, "num_stages": 1, "ptx_version": 70}
    )
    ptx = made.asm["ptx"]
    if isinstance(ptx, bytes):
        ptx = ptx.decode()
    entry = re.search(r"\.entry\s+(\w+)\s*\((.*?)\)", ptx, re.S)
    taken = entry.group(2).count(".param")
    arguments = [argument for _, argument in PARAMETERS.values()]
    launch = {
        "function": entry.group(1),
        "threads": 32 * WARPS,
        "shared": made.metadata.shared,
        "part": PART,
        "block": BLOCK,
        # Triton adds pointers to scratch memory, of which this kernel has none.
        "arguments": arguments + ["null"] * (taken - len(arguments)),
        "triton": triton.__version__,
        "kernel": hashlib.sha256((HERE / "kernel.py").read_bytes()).hexdigest(),
        "ptx": hashlib.sha256(ptx.encode()).hexdigest(),
    }
    (HERE / "oneshot.ptx").write_text(ptx)
    (HERE / "oneshot.json").write_text(json.dumps(launch, indent=2) + "\n")


if __name__ == "__main__":
    main()
