"""fleetscope: performance of fleets of PCIe-attached ML accelerators, continuously and with stated error bounds."""

from typing import Final

__version__: Final = "0.1.0"
