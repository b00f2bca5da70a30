"""Privacy mechanisms, accountants, ledger and calibration."""
