"""Feature maps that approximate kernels."""
