"""Families of what crosses a node's ports, so that its traces can hold it. Imported by who writes or reads one."""

from holdall.machine.codec import CODEC
from holdall.model import frames
from holdall.parties.messages import (
    Asked,
    DrainNode,
    HookDone,
    ProcessGone,
    Reload,
    RunHook,
    SessionClosed,
    SessionOpened,
    WatchProcess,
)

CODEC.register("answers", frames.FromNode)
CODEC.register(
    "ports",
    SessionOpened
    | Asked
    | SessionClosed
    | ProcessGone
    | WatchProcess
    | DrainNode
    | Reload
    | RunHook
    | HookDone,
)
