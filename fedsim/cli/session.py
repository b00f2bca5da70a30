"""What was asked of this call of the command line as a whole."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Session:
    """How one call reports.

    Attributes:
        as_json: print the result, or the error, as one line of JSON on stdout.
        quiet: print only errors and the result.
        verbose: print where in fedsim an error was raised.
    """

    as_json: bool = False
    quiet: bool = False
    verbose: bool = False
