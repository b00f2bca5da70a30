"""What encrypted sums sent where, in words."""

from __future__ import annotations

from fedsim.crypto.traffic import sentence


def test_each_kind_of_bytes_has_its_place() -> None:
    traffic = {
        "secure-sum-upload": (7e3, 106e6),
        "secure-sum-share": (98.37e6, 7.7e6),
        "secure-sum-commit-key": (320.0, 880.0),
        "secure-sum-reveal-key": (2e9, 120.0),
        "local-centres": (5e9, 5e9),
    }
    assert sentence(traffic) == (
        "encrypted sums: ciphertexts 106 MB to the server, their sums 98.4 MB to the agents, "
        "decryption shares 7.7 MB to the server; keys 1 kB to the server, 2 GB to the agents"
    )


def test_sums_in_the_clear_and_no_sums() -> None:
    expected = "sums, not encrypted: 512 bytes to the server"
    assert sentence({"secure-sum-upload": (7e3, 512.0)}) == expected
    assert sentence({"local-centres": (1.0, 2.0)}) == ""
    assert sentence({}) == ""


def test_digits_carry_to_the_next_unit() -> None:
    found = [
        sentence({"secure-sum-upload": (0.0, n)}) for n in (999.0, 999.6, 999_499.0, 999_600.0)
    ]
    assert [text.split(": ")[1].removesuffix(" to the server") for text in found] == [
        "999 bytes",
        "1 kB",
        "999 kB",
        "1 MB",
    ]
