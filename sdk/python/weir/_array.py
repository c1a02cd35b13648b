"""What the library needs to know of an array: numpy's, torch's, or any with __array_interface__."""

import math
import sys

from ._errors import Invalid

DATA_TYPES = {"float32": 0, "float64": 1, "float16": 2, "bfloat16": 3, "int8": 4, "uint8": 5, "int32": 6, "int64": 7}
OPS = {"sum": 0, "prod": 1, "min": 2, "max": 3, "avg": 4}
MEMORIES = {"host": 0, "cpu": 0, "cuda": 1}


def number(of, name, what):
    """The library's number of a data type, op or memory kind."""
    try:
        return of[name]
    except KeyError:
        raise Invalid(f"unknown {what} {name!r}, want one of {', '.join(of)}") from None


def data_type(dtype):
    """The number of a numpy or torch dtype, or of its name."""
    name = dtype if isinstance(dtype, str) else getattr(dtype, "name", None) or str(dtype)
    return number(DATA_TYPES, name[len("torch.") :] if name.startswith("torch.") else name, "data type")


def is_torch(array):
    """Whether an array is a torch tensor. It does not import torch."""
    return type(array).__module__.split(".")[0] == "torch" or hasattr(array, "data_ptr")


def describe(array, written):
    """(address, count, data type, CUDA device or None, order "C" or "F") of an array that lies in one piece."""
    if is_torch(array):
        return _tensor(array)
    try:
        interface = array.__array_interface__
    except AttributeError:
        raise Invalid(f"{type(array).__name__} is neither a numpy array nor a torch tensor") from None
    if not hasattr(array, "dtype"):
        return _foreign(interface, written)
    flags = array.flags
    if not (flags.c_contiguous or flags.f_contiguous):
        raise Invalid("the array does not lie in one piece; give numpy.ascontiguousarray(array)")
    if written and not flags.writeable:
        raise Invalid("the array cannot be written to")
    if not array.dtype.isnative:
        raise Invalid(f"the array has the byte order of another machine ({array.dtype})")
    return interface["data"][0], array.size, data_type(array.dtype), None, "C" if flags.c_contiguous else "F"


_KINDS = {"f": "float", "i": "int", "u": "uint"}


def _foreign(interface, written):
    """describe of what says by __array_interface__ alone where it lies."""
    address, fixed = interface.get("data") or (None, True)
    if address is None or interface.get("strides") is not None:
        raise Invalid("the array does not lie in one piece, in memory that it names; give numpy.ascontiguousarray(array)")
    if written and fixed:
        raise Invalid("the array cannot be written to")
    order, kind, size = interface["typestr"][0], interface["typestr"][1], int(interface["typestr"][2:])
    if order not in ("|", "<" if sys.byteorder == "little" else ">"):
        raise Invalid(f"the array has the byte order of another machine ({interface['typestr']})")
    return address, math.prod(interface["shape"]), data_type(f"{_KINDS.get(kind, kind)}{8 * size}"), None, "C"


def _tensor(tensor):
    if tensor.device.type not in ("cpu", "cuda"):
        raise Invalid(f"a tensor on {tensor.device}; Weir takes cpu and cuda")
    if tensor.layout.__repr__() != "torch.strided" or not tensor.is_contiguous():
        raise Invalid("the tensor does not lie in one piece; give tensor.contiguous()")
    if tensor.is_neg():
        raise Invalid("the tensor is a view of values of the other sign; give tensor.resolve_neg()")
    device = tensor.device if tensor.device.type == "cuda" else None
    return tensor.data_ptr(), tensor.numel(), data_type(tensor.dtype), device, "C"
