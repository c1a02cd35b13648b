"""The errors of libweir as exceptions."""


class Error(RuntimeError):
    """What went wrong, in the library's words. The subclasses say of what kind it is."""


class Invalid(Error, ValueError):
    """An argument that this rank alone can see to be wrong."""


class Closed(Error):
    """The session or group is closed."""


class Busy(Error):
    """Another call on the group is in progress in another thread."""


class Timeout(Error, TimeoutError):
    """The timeout of the request is over."""


class GroupFailed(Error):
    """The group has failed, on every rank; so does every later call on it."""


class Forked(Error):
    """This process was forked from one that had loaded libweir.so."""


_BY_CODE = {2: Invalid, 3: Closed, 4: Busy, 5: Timeout, 6: GroupFailed, 7: Forked}


def of_code(code, text):
    """The exception for a weir_result other than WEIR_OK."""
    return _BY_CODE.get(code, Error)(text)
