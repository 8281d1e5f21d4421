"""From a snapshot to a released address: judge, ledger, release, verify, report, and the schedule around it."""
