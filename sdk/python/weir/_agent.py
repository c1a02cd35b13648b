"""Starts an agent for ranks that nobody has started one for."""

import os
import selectors
import subprocess
import time

from . import _library
from ._errors import Error

_PATIENCE = 45.0  # seconds until the agent must serve: it starts plugins and looks at the machine


def start(ranks):
    """Starts `weir agent` for one job of this process and returns its socket. It ends with the last rank, also if ranks are
    killed, and if none joins."""
    program = _library.program()
    if program is None:
        raise Error("there is no program `weir` in PATH or beside libweir.so; start an agent and set WEIR_AGENT_SOCKET")
    try:
        agent = subprocess.Popen(
            [program, "agent", "--ranks", str(ranks), "--quiet", "--once"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            start_new_session=True,  # a signal for the ranks is not for it
        )
    except OSError as error:
        raise Error(f"{program} cannot be started: {error}") from error
    try:
        return _read(agent)
    except Error:
        agent.kill()
        agent.wait()
        raise
    finally:
        agent.stdout.close()
        agent.returncode = agent.returncode or 0  # it outlives this process, which does not wait for it


def _read(agent):
    text, end = b"", time.monotonic() + _PATIENCE
    with selectors.DefaultSelector() as ready:
        ready.register(agent.stdout, selectors.EVENT_READ)
        while b"WEIR_WORLD_SIZE=" not in text:
            if not ready.select(max(0, end - time.monotonic())):
                raise Error(f"`weir agent` does not serve after {_PATIENCE:.0f} s")
            part = os.read(agent.stdout.fileno(), 4096)
            if not part:
                raise Error(f"`weir agent` ended with code {agent.wait()} before it served; standard error says why")
            text += part
    for line in text.decode().splitlines():
        name, _, value = line.partition("=")
        if name == "WEIR_AGENT_SOCKET":
            return value
    raise Error(f"`weir agent` printed {text!r} in place of its socket")
