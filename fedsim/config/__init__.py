"""What a user may write: configurations, checked, completed and turned into objects."""
