"""Finds libweir.so and declares its functions."""

import ctypes
import os
import shutil
import threading
from ctypes import POINTER, c_char_p, c_int, c_int32, c_int64, c_size_t, c_uint64, c_void_p

from . import _errors


class Options(ctypes.Structure):
    """weir_options."""

    _fields_ = [
        ("size", c_size_t),
        ("socket", c_char_p),
        ("rank", c_int32),
        ("world_size", c_int32),
        ("device", c_char_p),
        ("timeout_ms", c_int64),
    ]


class Class(ctypes.Structure):
    """weir_class."""

    _fields_ = [("memory", c_int32), ("data_type", c_int32), ("op", c_int32), ("captured", c_int32)]


_FUNCTIONS = {
    "weir_join": [POINTER(Options), POINTER(c_uint64)],
    "weir_leave": [c_uint64],
    "weir_world": [c_uint64, POINTER(c_uint64)],
    "weir_new_group": [c_uint64, POINTER(c_int32), c_int32, c_int64, POINTER(c_uint64)],
    "weir_split": [c_uint64, c_int32, c_int32, c_int64, POINTER(c_uint64)],
    "weir_close": [c_uint64],
    "weir_rank": [c_uint64, POINTER(c_int32)],
    "weir_size": [c_uint64, POINTER(c_int32)],
    "weir_ranks": [c_uint64, POINTER(c_int32), c_int32],
    "weir_warm": [c_uint64, POINTER(Class), c_int32, c_int64],
    "weir_backend": [c_uint64, POINTER(Class), c_int64, c_char_p, c_size_t],
    "weir_all_reduce": [c_uint64, c_void_p, c_void_p, c_int64, c_int, c_int],
    "weir_all_reduce_device": [c_uint64, c_void_p, c_void_p, c_int64, c_int, c_int, c_void_p],
    "weir_abort": [c_uint64, c_char_p],
    "weir_group_error": [c_uint64],
    "weir_exchange": [c_uint64, c_char_p, c_size_t, c_char_p, c_int64],
}

_lock = threading.Lock()
_loaded = None


def candidates():
    """Where the library is looked for, in this order."""
    named = os.environ.get("LIBWEIR")
    if named:
        return [named]  # and nowhere else: it would hide a wrong path
    found = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "libweir.so")]
    program = shutil.which("weir")
    if program:
        folder = os.path.dirname(os.path.realpath(program))
        found += [os.path.join(folder, "lib", "libweir.so"), os.path.join(folder, "..", "lib", "libweir.so")]
    return [path for path in found if os.path.exists(path)] + ["libweir.so"]


def load():
    """The library, loaded at the first call: from then on the process has threads that a fork does not keep."""
    global _loaded
    with _lock:
        if _loaded is None:
            _loaded = _open()
    return _loaded


def _open():
    problems = []
    for path in candidates():
        try:
            library = ctypes.CDLL(path)
        except OSError as error:
            problems.append(f"{path}: {error}")
            continue
        for name, arguments in _FUNCTIONS.items():
            function = getattr(library, name)
            function.argtypes, function.restype = arguments, c_int
        library.weir_last_error.restype = library.weir_version.restype = c_char_p
        return library
    raise _errors.Error(
        "libweir.so cannot be loaded; build it with `./task cabi` and set LIBWEIR to its path (" + "; ".join(problems) + ")"
    )


def check(code):
    """Raises what a function returned, unless it is WEIR_OK."""
    if code != 0:
        raise _errors.of_code(code, _loaded.weir_last_error().decode(errors="replace"))


def program():
    """The path of the program `weir`: in PATH, or where the library lies in lib/ below it; None if it is in neither place."""
    found = shutil.which("weir")
    if found:
        return found
    for path in candidates():
        for beside in ("weir", os.path.join("..", "weir"), os.path.join("..", "bin", "weir")):
            guess = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(path)), beside))
            if os.path.sep in path and os.path.isfile(guess) and os.access(guess, os.X_OK):
                return guess
    return None


def version():
    """The version of libweir.so."""
    return load().weir_version().decode()


def milliseconds(timeout):
    """A timeout in seconds as the library takes it; None leaves it to the agent's deadlines."""
    if timeout is None:
        return 0
    if timeout <= 0:
        raise _errors.Invalid(f"timeout of {timeout} seconds; give more than 0, or None for the agent's own deadline")
    return max(1, min(int(timeout * 1000), 2**62))
