"""Every IPAM that poolwarden knows; a new one is one module and one line here."""

from collections.abc import Mapping

from poolwarden.ipam.inventory import Backend
from poolwarden.ipam.neon import Neon
from poolwarden.ipam.spiderpool import Spiderpool
from poolwarden.ipam.terway import Terway
from poolwarden.ipam.whereabouts import Whereabouts

BACKENDS: Mapping[str, Backend] = {backend.name: backend for backend in (Spiderpool(), Whereabouts(), Neon(), Terway())}
