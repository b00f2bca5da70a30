"""The engine: Ray actors, faults, resume. Import as ``fedsim.actors``."""
