"""What Multus and the kernel make of a pod's networks: names for all of them, and what can only fail."""

from collections.abc import Iterable, Iterator, Mapping

from poolwarden.ipam.interface import InvalidName, check_name, multus_name
from poolwarden.ipam.objects import DEFAULT_NETWORK, NETWORKS
from poolwarden.webhook.knowledge import Knowledge
from poolwarden.webhook.pod.networks import (
    GO_BLANKS,
    Networks,
    Selection,
    is_json,
    named,
    parse,
    with_inner_blanks,
)
from poolwarden.webhook.pod.nics import Nic
from poolwarden.webhook.pod.problem import Findings, Problem, Unreadable, ignored_keys, quoted
from poolwarden.webhook.settings import RuleSettings

LOOPBACK = "lo"


def named_networks(text: str, selections: tuple[Selection, ...], preceding: int) -> str:
    """The networks annotation with a name for every item: its own without blanks, else the one Multus would give it.

    `preceding` NICs come before. Unchanged where two NICs would have one name: that is for its author to mend, in his
    own words.
    """
    names = {
        at: selection.interface.strip(GO_BLANKS) or multus_name(preceding + at)
        for at, selection in enumerate(selections)
    }
    if len({*names.values(), *map(multus_name, range(preceding))}) < len(names) + preceding:
        return text
    blank = set() if is_json(text) else with_inner_blanks(text)
    return named(text, {at: name for at, name in names.items() if name != selections[at].interface or at in blank})


def network_findings(
    annotations: Mapping[str, str], nics: tuple[Nic, ...], knowledge: Knowledge, settings: RuleSettings
) -> Findings:
    """What is found in the names and networks of a pod's NICs."""
    problems = (*_bad_names(nics), *_repeated_names(nics), *_default_network_problems(annotations, settings))
    warnings = (warning for nic in nics for warning in _warnings(nic, knowledge))
    return Findings(problems, tuple(warnings))


def _bad_names(nics: Iterable[Nic]) -> Iterator[Problem]:
    for nic, selection, number in _own(nics):
        wrong = nic_name_fault(nic.interface) if selection.interface else ""
        if wrong:
            yield Problem(NETWORKS, number, selection.text, wrong)


def nic_name_fault(name: str) -> str:
    """Why no NIC of a pod can have this name; "" if one can."""
    if name == LOOPBACK:
        return f"interface name {LOOPBACK!r} is taken: every network namespace has it from the start"
    verdict = check_name(name)
    return verdict.message if isinstance(verdict, InvalidName) else ""


def _repeated_names(nics: Iterable[Nic]) -> Iterator[Problem]:
    """Multus checks no name against the others; the second ADD fails, and what the first set up is torn down."""
    holders: dict[str, Nic] = {}
    numbers = {nic.position: number for nic, _, number in _own(nics)}
    for nic in nics:
        other = holders.setdefault(nic.interface, nic)
        if other is nic:
            continue
        # Of a given and an implied name the given one can be changed.
        blamed, kept = (other, nic) if _is_implied(nic) and other.selection else (nic, other)
        if blamed.selection is None:
            continue
        how = "would give to" if _is_implied(kept) else "gives to" if kept.selection is None else "is told to give to"
        yield Problem(
            NETWORKS,
            numbers[blamed.position],
            blamed.selection.text,
            f"interface name {quoted(nic.interface)} is also the one that Multus {how} {kept.network} "
            f"(NIC {kept.position}); every NIC of a pod needs a name of its own",
            rule="repeated name",
        )


def _is_implied(nic: Nic) -> bool:
    return nic.selection is not None and not nic.selection.interface


def _default_network_problems(annotations: Mapping[str, str], settings: RuleSettings) -> Iterator[Problem]:
    text = annotations.get(DEFAULT_NETWORK)
    if text is None:
        return
    match parse(DEFAULT_NETWORK, text, settings.multus_namespace):
        case Unreadable(problems):
            yield from problems
        case Networks(items=(selection,)):
            wrong = nic_name_fault(selection.interface) if selection.interface else ""
            if wrong:
                yield Problem(DEFAULT_NETWORK, 1, selection.text, wrong)
        case Networks(items):
            yield Problem(DEFAULT_NETWORK, 0, text, f"it names {len(items)} networks; exactly one is needed")


def _warnings(nic: Nic, knowledge: Knowledge) -> Iterator[Problem]:
    selection = nic.selection
    if selection is None:
        return
    number = selection.number
    if knowledge.attachments.lacks(selection.key) and selection.key not in knowledge.multus_configs.items:
        missing = f"NetworkAttachmentDefinition {'/'.join(selection.key)} does not exist (yet)"
        yield Problem(NETWORKS, number, selection.text, missing)
    if selection.unknown_keys:
        yield Problem(NETWORKS, number, selection.text, ignored_keys(selection.unknown_keys, "Multus"))


def _own(nics: Iterable[Nic]) -> Iterator[tuple[Nic, Selection, int]]:
    """The NICs that the pod's own annotation asks for, and their items' numbers in it."""
    return ((nic, nic.selection, nic.selection.number) for nic in nics if nic.selection is not None)
