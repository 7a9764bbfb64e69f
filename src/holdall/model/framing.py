"""Cuts a stream of bytes into the bodies of frames; the twin of `frames.pack`."""

from holdall.model.frames import LENGTH_BYTES
from holdall.model.names import FRAME_BYTES_MAX


class FrameTooLong(ValueError):
    """A frame says that it is longer than any frame may be: the other side does not speak this protocol."""


class FrameBuffer:
    """Bytes go in as they arrive; whole bodies come out. Holds at most one unfinished frame."""

    def __init__(self, bytes_max: int = FRAME_BYTES_MAX) -> None:
        self.bytes_max = bytes_max
        self._waiting = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """The bodies that are complete now. Raises FrameTooLong; the stream is unusable after that."""
        self._waiting += data
        bodies: list[bytes] = []
        start = 0
        while len(self._waiting) - start >= LENGTH_BYTES:
            size = int.from_bytes(self._waiting[start : start + LENGTH_BYTES], "big")
            if size > self.bytes_max:
                raise FrameTooLong(f"a frame of {size} bytes; at most {self.bytes_max} are allowed")
            end = start + LENGTH_BYTES + size
            if len(self._waiting) < end:
                break
            bodies.append(bytes(self._waiting[start + LENGTH_BYTES : end]))
            start = end
        del self._waiting[:start]
        return bodies
