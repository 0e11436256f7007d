"""A simulated server: a real process that speaks OpenAI's HTTP on 127.0.0.1, its steps timed by the model, and its faults on request.

    ServerOptions → StepTable (what a step takes) → BatchEngine (what a step does, any clock) → SimulatedServer (HTTP, real clock)
"""
