"""The API server, and the same interface over files. Knows no IPAM."""
