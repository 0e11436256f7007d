"""One thread that counts, and prints the processor time it took: no thread setting can make it faster."""

import time

total = sum(number * number for number in range(1_500_000))
print("total", total % 1000)
print("cpu", time.process_time())
