"""Plots from run folders. Import as ``fedsim.dashboards``."""
