"""Reservations: objects beside the pools that keep an address from being handed out by any pool of a network."""

from msgspec import Struct

from poolwarden.ipam.pool import ClaimedOwner, UnparsedOwner


class Reservation(Struct, frozen=True, gc=False):
    """One reserved address.

    `address` is canonical, None if the object's name is none. `network` is the pools' (`Pool.network`). `digest` is a
    short hash of which object it is and what it says.
    """

    namespace: str
    name: str
    uid: str
    resource_version: str
    address: str | None
    network: str
    owner: ClaimedOwner | UnparsedOwner
    interface: str
    digest: str
