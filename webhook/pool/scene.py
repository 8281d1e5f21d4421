"""What rules about pool objects are given beside the object itself."""

from msgspec import Struct

from poolwarden.webhook.knowledge import Knowledge
from poolwarden.webhook.settings import RuleSettings


class Scene(Struct, frozen=True):
    """The object's name ("" while the API server has yet to make one), the cluster around it, and the settings."""

    namespace: str
    name: str
    knowledge: Knowledge
    settings: RuleSettings
