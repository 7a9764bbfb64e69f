"""Stops the body of a blocking `with` from another thread: an exception at its next step of Python code.

A call that blocks inside C code (a sleep, a read) ends first. The exception is like KeyboardInterrupt: it can come
between any two steps, so `on_loss="event"` is there for bodies that can't bear that.
"""

import ctypes
import threading

from holdall.model.errors import LeaseLost

_set_async_exc = ctypes.pythonapi.PyThreadState_SetAsyncExc
_set_async_exc.argtypes = (ctypes.c_ulong, ctypes.py_object)
_set_async_exc.restype = ctypes.c_int


class _TakenBack(BaseException):
    """Comes in place of what is taken back."""


def strike(thread: int, loss: LeaseLost) -> type[LeaseLost]:
    """Raise the loss in that thread (`threading.get_ident()`). Returns the class of what is raised."""

    class Struck(LeaseLost):
        def __init__(self) -> None:
            super().__init__(loss.text, why=loss.why, definite=loss.definite)

    Struck.__name__ = Struck.__qualname__ = LeaseLost.__name__
    _set_async_exc(thread, Struck)
    return Struck


def take_back() -> None:
    """What this thread was struck with and has not been raised yet is not raised any more.

    Another exception takes its place and is caught here: were it only unset, the interpreter would look for it at
    every step from then on, and CPython 3.11 would never come to the first step of a function while a profiler or
    a debugger watches.
    """
    try:
        _set_async_exc(threading.get_ident(), _TakenBack)
        while True:
            pass
    except _TakenBack:
        pass
