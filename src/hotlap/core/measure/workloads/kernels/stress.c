/* Load that is checked: matrix products, memory patterns, atomics. T: element of A and B, R: of C. */

KERNEL void product(GLOBAL const T *RESTRICT a, GLOBAL const T *RESTRICT b, GLOBAL R *RESTRICT c, uint n, uint k) {
    const uint row = (uint)ID / n, column = (uint)ID % n;
    R sum = (R)0;
    for (uint l = 0; l < k; l++) sum = MAD((R)a[row * k + l], (R)b[l * n + column], sum);
    c[ID] = sum;
}

/* 0: one walking bit, 1: one walking zero, 2: all ones, 3: a hash of address and seed. */
DEVICE uint pattern(uint mode, uint seed, uint i) {
    uint h = (i ^ seed) * 2654435761u;
    h = (h ^ (h >> 15)) * 2246822519u;
    if (mode == 0) return 1u << ((i + seed) & 31u);
    if (mode == 1) return ~(1u << ((i + seed) & 31u));
    return mode == 2 ? 0xffffffffu : (h ^ (h >> 13)) ^ i;
}

KERNEL void pattern_write(GLOBAL uint *words, uint mode, uint seed, uint count) {
    for (uint i = (uint)ID; i < count; i += (uint)ITEMS) words[i] = pattern(mode, seed, i);
}

/* Compares, keeps the first 64 that differ (address, got), and leaves the inverse behind: a moving inversion. */
KERNEL void pattern_check(GLOBAL uint *words, GLOBAL uint *wrong, uint mode, uint seed, uint count, uint flip) {
    for (uint i = (uint)ID; i < count; i += (uint)ITEMS) {
        const uint should = flip ? ~pattern(mode, seed, i) : pattern(mode, seed, i), is = words[i];
        if (is != should) {
            const uint at = ATOMIC_ADD(wrong, 1);
            if (at < 64u) { wrong[1 + 2 * at] = i; wrong[2 + 2 * at] = is; }
        }
        words[i] = ~should;
    }
}

KERNEL void count_up(GLOBAL uint *cells, uint repeats, uint mask) {
    for (uint r = 0; r < repeats; r++) ATOMIC_ADD(cells + ((ID + r) & mask), 1u);
}
