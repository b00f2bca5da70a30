"""Sums of the agents' vectors that show the server nothing but the sum."""

from fedsim.crypto.fixed_point import fraction_bits_for
from fedsim.crypto.schemes import Encryption, Scheme
from fedsim.crypto.secure_sum import SecureSum, SumClient, upload_request
from fedsim.crypto.vectors import TooLargeError

__all__ = [
    "Encryption",
    "Scheme",
    "SecureSum",
    "SumClient",
    "TooLargeError",
    "fraction_bits_for",
    "upload_request",
]
