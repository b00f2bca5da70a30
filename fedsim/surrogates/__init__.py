"""Models of an objective: Bayesian linear, exact Gaussian process, posterior samples."""
