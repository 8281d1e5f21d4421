"""Rules about the objects that networks and pools are made of."""
