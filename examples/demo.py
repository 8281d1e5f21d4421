"""The demo: audits each example, then sweeps the leaking one from first sighting to the released addresses."""

import subprocess
import sys
import tempfile
from pathlib import Path

EXAMPLES = Path(__file__).parent
FLAGS = ["--assume-complete"]
SCENES = (
    ("force-deleted", "10.60.0.10", "Pods were force-deleted and CNI DEL never ran: three records have no owner."),
    (
        "surplus",
        "10.60.0.10",
        "A pending pod drew five addresses and can use one; nothing is freed under a living pod.",
    ),
    (
        "statefulset-restarting",
        "10.60.0.11",
        "A StatefulSet pod is restarting: the record of its old UID is kept for it.",
    ),
    ("conflict", "10.60.0.11", "A running pod uses an address that its pool does not record."),
    (
        "whereabouts",
        "10.80.0.2",
        "Whereabouts stores no UID: of two force-deleted pods one came back and has its record.",
    ),
)
SWEEPS = (
    ("2026-11-30T17:30:00Z", "first sighting"),
    ("2026-11-30T17:40:00Z", "ten minutes later: grace is over, cooldown begins"),
    ("2026-11-30T17:41:00Z", "one minute later: read once more, and released"),
)


def poolwarden(*arguments: str) -> None:
    """Show a command, and what it says."""
    print(f"$ poolwarden {' '.join(arguments)}", flush=True)
    status = subprocess.run([sys.executable, "-m", "poolwarden", *arguments], cwd=EXAMPLES, check=False).returncode
    print(f"(exit status {status})\n", flush=True)


def main() -> None:
    """Audit, explain one address of each example, then sweep."""
    for folder, address, what in SCENES:
        print(f"=== {folder}: {what}\n")
        poolwarden("audit", "-f", f"{folder}/cluster.yaml", *FLAGS, "--now", "2026-11-30T17:30:00Z")
        poolwarden("explain", address, "-f", f"{folder}/cluster.yaml", *FLAGS)
    print("=== The same sweep as in a cluster, on files: what was found, what waits, what is freed\n")
    with tempfile.TemporaryDirectory() as folder:
        state = "force-deleted/cluster.yaml"
        for step, (now, what) in enumerate(SWEEPS, start=1):
            print(f"--- {now}, {what}")
            after = str(Path(folder) / f"after-{step}.yaml")
            poolwarden("gc", "--once", "--mode", "release", "-f", state, *FLAGS, "--now", now, "--write", after)
            state = after
        poolwarden("audit", "-f", state, *FLAGS, "--now", "2026-11-30T17:41:00Z")
    print("=== review: what the webhook would make of a pod without interface names\n")
    poolwarden("review", "-f", "review/pod.yaml", "review/cluster.yaml", "-o", "patch")


if __name__ == "__main__":
    main()
