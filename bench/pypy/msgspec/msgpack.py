"""Nothing is encoded here either."""

from .json import Decoder, Encoder, decode, encode

__all__ = ["Decoder", "Encoder", "decode", "encode"]
