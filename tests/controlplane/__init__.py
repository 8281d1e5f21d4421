"""A real Kubernetes control plane for the tests, and what builds it."""
