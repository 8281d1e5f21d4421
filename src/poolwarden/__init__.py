"""poolwarden keeps Kubernetes pod-IP pools truthful."""
