"""Be a rank of Weir: join the agent of the host, form groups, all-reduce numpy arrays and torch tensors.

The functions are those of weir.h. A process that was forked after joining cannot use them: start processes with "spawn".
"""

from ._errors import Busy, Closed, Error, Forked, GroupFailed, Invalid, Timeout
from ._group import Group
from ._library import version
from ._session import Session, join

__all__ = ["Busy", "Closed", "Error", "Forked", "Group", "GroupFailed", "Invalid", "Session", "Timeout", "join", "version"]
