"""The domain: addresses, pools, records, endpoints, owners and verdicts, and one module per IPAM. No I/O."""
