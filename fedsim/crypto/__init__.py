"""Sums of the agents' vectors that show the server nothing but the sum."""

from fedsim.crypto.fixed_point import fraction_bits_for
from fedsim.crypto.schemes import Encryption, Scheme, make_scheme
from fedsim.crypto.secure_sum import SecureSum, SumClient, upload_request

__all__ = [
    "Encryption",
    "Scheme",
    "SecureSum",
    "SumClient",
    "fraction_bits_for",
    "make_scheme",
    "upload_request",
]
