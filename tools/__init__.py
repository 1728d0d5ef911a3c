"""What holds the project together, and is not shipped."""
