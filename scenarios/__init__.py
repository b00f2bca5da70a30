"""Workloads: objectives, data, ready configuration files. Import as ``fedsim.scenarios``."""
