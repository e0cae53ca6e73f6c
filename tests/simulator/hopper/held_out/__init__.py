"""Planted bugs by an outside author, who saw neither the checks nor the bugs that their makers use."""
