"""draft"""
class Sampler:
    def __init__(self, clock, sources, period_s): self.cost_s = 0.0
    def start(self): pass
    def stop(self): pass
    def drain(self): return []
