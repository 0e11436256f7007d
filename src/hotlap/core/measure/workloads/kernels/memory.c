/* Memory workloads in the common C dialect. S: scalar type, T: vector type of S, BLOCKED: each work-item owns a
   contiguous stretch (CPUs), else neighbours read neighbouring addresses (GPUs). Passes are kept apart by FENCE, so
   that a compiler cannot fold one into the next. */

/* A whole number from index and seed, within `mask`: sums and products of a few are exact in every float type. */
DEVICE uint hash(ulong i, uint seed, uint mask) {
    uint u = (uint)i * 2654435761u ^ seed;
    u ^= u >> 16; u *= 0x45d9f3bu; u ^= u >> 16;
    return u & mask;
}

KERNEL void fill(GLOBAL S *a, ulong n, uint seed, uint mask) {
    EACH(i, ID, n) a[i] = (S)hash(i, seed, mask);
}

/* What `fill` writes, summed in whole numbers, one sum per work-item. */
KERNEL void fill_sum(GLOBAL ulong *out, ulong n, uint seed, uint mask) {
    ulong sum = 0;
    EACH(i, ID, n) sum += hash(i, seed, mask);
    out[ID] = sum;
}

/* Reads are summed into `a`, one vector per work-item, so that none can be left out. */
KERNEL void stream_read(GLOBAL T *a, GLOBAL const T *b, GLOBAL const T *c, ulong n, uint passes, S s) {
    T s0 = SPLAT(T, s), s1 = SPLAT(T, (S)0), s2 = s1, s3 = s1; /* four sums: one would wait for its own additions */
    for (uint p = 0; p < passes; p++) {
        const ulong me = ME(p), end = UNTIL(me, n);
        ulong i = FROM(me, n);
        for (; i + 3 * STEP < end; i += 4 * STEP) {
            s0 = s0 + b[i];
            s1 = s1 + b[i + STEP];
            s2 = s2 + b[i + 2 * STEP];
            s3 = s3 + b[i + 3 * STEP];
        }
        for (; i < end; i += STEP) s0 = s0 + b[i];
        FENCE;
    }
    a[ID] = s0 + s1 + (s2 + s3);
}

/* Every pass writes other values; the last one uses the s that was given. */
#define STREAM(name, expression)                                                                                      \
    KERNEL void stream_##name(GLOBAL T *RESTRICT a, GLOBAL const T *RESTRICT b, GLOBAL const T *RESTRICT c, ulong n,  \
                              uint passes, S s) {                                                                     \
        for (uint p = 0; p < passes; p++) {                                                                           \
            const T v = SPLAT(T, s + (S)(passes - 1 - p));                                                            \
            const ulong me = ME(p);                                                                                   \
            EACH(i, me, n) a[i] = expression;                                                                         \
            FENCE;                                                                                                    \
        }                                                                                                             \
    }
STREAM(write, v)
STREAM(copy, b[i])
STREAM(scale, v * b[i])
STREAM(add, b[i] + c[i])
STREAM(triad, MAD(v, c[i], b[i]))

/* How many elements of `a` differ from kb·hash(b) + kc·hash(c) + k. */
KERNEL void stream_verify(GLOBAL const S *a, ulong n, uint seed_b, uint seed_c, S kb, S kc, S k, GLOBAL uint *wrong) {
    uint bad = 0;
    EACH(i, ID, n) bad += a[i] != kb * (S)hash(i, seed_b, 1023u) + kc * (S)hash(i, seed_c, 1023u) + k;
    if (bad) ATOMIC_ADD(wrong, bad);
}

KERNEL void gather_random(GLOBAL float *RESTRICT out, GLOBAL const float *RESTRICT table, GLOBAL const uint *RESTRICT index, ulong n, uint stride) {
    EACH(i, ID, n) out[i] = table[index[i]];
}

KERNEL void gather_strided(GLOBAL float *RESTRICT out, GLOBAL const float *RESTRICT table, GLOBAL const uint *RESTRICT index, ulong n, uint stride) {
    EACH(i, ID, n) out[i] = table[i * stride];
}

/* One work-item follows a cycle of lines; the place it stopped at is where the next call begins. */
KERNEL void chase(GLOBAL const uint *next, GLOBAL uint *place, uint hops) {
    uint p = place[0];
    for (uint h = 0; h < hops; h++) p = next[p];
    place[0] = p;
}
