/* Arithmetic workloads in the common C dialect. T: vector type, S: its scalar, CHAINS: independent chains. */

#define DO_4(F) F(0) F(1) F(2) F(3)
#define DO_5(F) DO_4(F) F(4)
#define DO_6(F) DO_5(F) F(5)
#define DO_8(F) DO_6(F) F(6) F(7)
#define DO_10(F) DO_8(F) F(8) F(9)
#define DO_12(F) DO_10(F) F(10) F(11)
#define DO_16(F) DO_12(F) F(12) F(13) F(14) F(15)
#define DO_N_(n, F) DO_##n(F)
#define DO_N(n, F) DO_N_(n, F)
#define DO(F) DO_N(CHAINS, F)

/* a = a·x + y in every chain; the sum of the chains is kept, so that none can be left out. Chain j starts at the
   work-item's own values + j: were they the same for all, a compiler could compute one for the whole group. */
#define BEGIN(j) T a##j = first + SPLAT(T, (S)j);
#define STEP(j) a##j = MAD(a##j, x, y);
#define SUM(j) sum = sum + a##j;
KERNEL void fma_chains(GLOBAL T *RESTRICT out, GLOBAL const T *RESTRICT start, S x_, S y_, uint loops) {
    const T x = SPLAT(T, x_), y = SPLAT(T, y_), first = start[ID];
    DO(BEGIN)
    for (uint l = 0; l < loops; l++) { DO(STEP) }
    T sum = SPLAT(T, (S)0);
    DO(SUM)
    out[ID] = sum;
}

/* FMAS multiply-adds on every element; CHAINS elements of a work-item are in flight at once. */
#ifdef BLOCKED
#define FIRST (ID * per_item)
#define STRIDE 1ul
#else
#define FIRST ID
#define STRIDE ITEMS
#endif
#define LOAD(j) T a##j = in[at + j##ul * STRIDE];
#define STORE(j) out[at + j##ul * STRIDE] = a##j;
KERNEL void intensity(GLOBAL T *RESTRICT out, GLOBAL const T *RESTRICT in, ulong per_item, uint fmas, S x_, S y_) {
    const T x = SPLAT(T, x_), y = SPLAT(T, y_);
    for (ulong i = 0; i < per_item; i += CHAINS) {
        const ulong at = FIRST + i * STRIDE;
        DO(LOAD)
        for (uint f = 0; f < fmas; f++) { DO(STEP) }
        DO(STORE)
    }
}
