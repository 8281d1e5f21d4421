"""Rules about pods and the templates of workloads: names of NICs, networks, and lists of pools."""
