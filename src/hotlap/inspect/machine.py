"""draft"""
from hotlap.record import Machine
def fingerprint(devices): return Machine(host="draft", devices=list(devices))
