// Launch, atomic and barrier workloads in WGSL, as in latency.c.
var<workgroup> ring: array<u32, 1024>;

KERNEL empty(count: write u32) {
}

KERNEL counted(count: write u32) {
    if (ID == 0u) { count[0] += 1u; }
}

KERNEL atomic(cells: atomic u32, repeats: u32, spread: u32) {
    for (var r = 0u; r < repeats; r++) { atomicAdd(&cells[ID * spread], 1u); }
}

KERNEL barrier_ring(out: write u32, passes: u32) {
    var value = LID;
    for (var p = 0u; p < passes; p++) {
        ring[LID] = value;
        workgroupBarrier();
        value = ring[(LID + 1u) % GROUP_SIZE];
        workgroupBarrier();
    }
    out[ID] = value;
}
