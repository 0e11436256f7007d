/* Launch, atomic and barrier workloads in the common C dialect. */

KERNEL void empty(GLOBAL uint *count) {
    (void)count;
}

KERNEL void counted(GLOBAL uint *count) {
    if (ID == 0) count[0] += 1;
}

/* `spread` is the distance between the addresses of neighbours; 0 means one address for all. */
KERNEL void atomic(GLOBAL uint *cells, uint repeats, uint spread) {
    for (uint r = 0; r < repeats; r++) ATOMIC_ADD(cells + ID * spread, 1u);
}

/* One group passes its values round by `passes` places, with two barriers in each pass. */
KERNEL void barrier_ring(GLOBAL uint *out, uint passes) {
    LOCAL_ARRAY(uint, ring, 1024);
    uint value = (uint)LID;
    for (uint p = 0; p < passes; p++) {
        ring[LID] = value;
        BARRIER;
        value = ring[(LID + 1) % GROUP_SIZE];
        BARRIER;
    }
    out[ID] = value;
}
