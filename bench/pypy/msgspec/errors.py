"""What is raised, by msgspec's names."""


class MsgspecError(Exception):
    """Of all errors of msgspec."""


class EncodeError(MsgspecError):
    """A value that can't be written."""


class DecodeError(MsgspecError):
    """Bytes that can't be read."""


class ValidationError(DecodeError):
    """A value of another type."""
