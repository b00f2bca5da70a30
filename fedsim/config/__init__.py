"""Configurations: checked, completed with defaults and turned into objects."""
