"""The loop: Case → Samples + Readings. `session` runs a plan in rounds, `worker` is one round, `loop` measures one case."""
