"""What people look at: plots from run folders. Import as ``fedsim.dashboards``."""
