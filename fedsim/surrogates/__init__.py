"""Probabilistic models of an objective: Bayesian linear, exact Gaussian process, posterior paths."""
