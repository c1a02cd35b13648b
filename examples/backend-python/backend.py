#!/usr/bin/env python3
"""A backend in Python: this process adds up, with numpy, what the ranks put into shared memory.

To make it yours, change what Adder says it needs, and what it does with a tile.
"""

import numpy

import weir_plugin


class Adder(weir_plugin.Backend):
    name = "python"
    description = "a Python process adds up what the ranks put into shared memory"
    priority = -200  # the ranks are faster by themselves
    requirements = {
        "memories": ["host"],
        "scope": "one_host",
        "deterministic": True,  # added in the order of the ranks
    }

    def reduce(self, tile):
        with numpy.errstate(all="ignore"):  # infinities and integers that wrap are results like others
            total = widened(tile.data_type, tile.inputs[0]).copy()
            combine = {"prod": numpy.multiply, "min": numpy.fmin, "max": numpy.fmax}.get(tile.op, numpy.add)
            for data in tile.inputs[1:]:
                combine(total, widened(tile.data_type, data), out=total)
            if tile.op == "avg":
                total = quotient(total, len(tile.inputs))
            store(tile.data_type, tile.out, total)


def widened(data_type, data):
    """The elements, 16-bit floating-point numbers as float32: sums of those are rounded once, at the end."""
    if data_type == "bfloat16":  # which numpy does not know: the upper half of a float32
        return (data.view(numpy.uint16).astype(numpy.uint32) << 16).view(numpy.float32)
    if data_type == "float16":
        return data.view(numpy.float16).astype(numpy.float32)
    return data.view(data_type)


def quotient(total, world):
    if total.dtype.kind == "f":
        return total / total.dtype.type(world)
    wide = total.astype(numpy.int64)  # the number of ranks may not fit into the type
    return (wide - numpy.fmod(wide, world)) // world  # towards zero, as C and Go divide


def store(data_type, out, total):
    if data_type == "bfloat16":
        bits = total.view(numpy.uint32)
        rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16  # ties to even
        out.view(numpy.uint16)[:] = numpy.where(numpy.isnan(total), bits >> 16 | 0x40, rounded)
        return
    out.view(data_type)[:] = total


if __name__ == "__main__":
    weir_plugin.serve("python", "0.1.0", [Adder()])
