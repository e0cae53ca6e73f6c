"""What runs and studies share. Nothing in here is a command."""
