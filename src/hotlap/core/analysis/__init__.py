"""From results to rows and verdicts. Needs nothing but bundles: it works where the machine is gone."""
