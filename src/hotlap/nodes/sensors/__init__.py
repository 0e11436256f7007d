"""Sensors beside the device: BMCs by Redfish and IPMI, exporters; and where readings go."""
