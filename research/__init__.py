"""What makes data that the package holds: not in the wheel. It imports hotlap; hotlap never imports it."""
