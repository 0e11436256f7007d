// Arithmetic workloads in WGSL, as in compute.c. T: vector type, S: its scalar, CHAINS: independent chains.

KERNEL fma_chains(out: write T, start: read T, x_: S, y_: S, loops: u32) {
    let x = T(x_);
    let y = T(y_);
    let first = start[ID];
    DO var a# = first + T(S(#));
    for (var l = 0u; l < loops; l++) {
        DO a# = a# * x + y;
    }
    var sum = T(S(0));
    DO sum += a#;
    out[ID] = sum;
}

KERNEL intensity(out: write T, data: read T, per_item: u32, fmas: u32, x_: S, y_: S) {
    let x = T(x_);
    let y = T(y_);
    let step = select(ITEMS, 1u, BLOCKED);
    let origin = select(ID, ID * per_item, BLOCKED);
    for (var i = 0u; i < per_item; i += CHAINS) {
        let at = origin + i * step;
        DO var a# = data[at + #u * step];
        for (var f = 0u; f < fmas; f++) {
            DO a# = a# * x + y;
        }
        DO out[at + #u * step] = a#;
    }
}
