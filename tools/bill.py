"""The bill of materials of a release, in CycloneDX: fedtempo, and the pinned releases that it was tested with.

Its time is that of the release's last commit, and its number follows from its content, so it has the same bytes again.
"""

from __future__ import annotations

import datetime
import uuid
from pathlib import Path

from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import LicenseExpression
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from fedtempo.version import __version__
from tools.audit import Pin, pins


def write_bill(lock: Path, folder: Path, epoch: int) -> Path:
    """Write the bill for the releases in a lock; return the file. epoch: its time, seconds since 1970."""
    content = lock.read_text(encoding="utf-8")
    own = Component(
        name="fedtempo",
        version=__version__,
        type=ComponentType.LIBRARY,
        purl=PackageURL("pypi", name="fedtempo", version=__version__),
        bom_ref=f"fedtempo=={__version__}",
        licenses=[LicenseExpression("Apache-2.0")],
    )
    used = [_component(pin) for pin in pins(content.splitlines())]
    bill = Bom(components=used, serial_number=uuid.uuid5(uuid.NAMESPACE_URL, f"fedtempo {__version__}\n{content}"))
    bill.metadata.component = own
    bill.metadata.timestamp = datetime.datetime.fromtimestamp(epoch, datetime.UTC)
    bill.register_dependency(own, used)
    path = folder / f"fedtempo-{__version__}.cdx.json"
    path.write_text(JsonV1Dot6(bill).output_as_string(indent=2) + "\n", encoding="utf-8")
    return path


def _component(pin: Pin) -> Component:
    """Return a pinned release; its hashes are those of its files."""
    return Component(
        name=pin.name,
        version=str(pin.version),
        type=ComponentType.LIBRARY,
        purl=PackageURL("pypi", name=pin.name, version=str(pin.version)),
        bom_ref=f"{pin.name}=={pin.version}",
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=each.partition(":")[2]) for each in pin.hashes],
    )
