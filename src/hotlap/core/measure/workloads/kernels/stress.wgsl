// Load that is checked, in WGSL, as in stress.c. T: element of A and B, R: of C.

KERNEL product(a: read T, b: read T, c: write R, n: u32, k: u32) {
    let row = ID / n;
    let column = ID % n;
    var sum = R(0);
    for (var l = 0u; l < k; l++) { sum += R(a[row * k + l]) * R(b[l * n + column]); }
    c[ID] = sum;
}

fn pattern(mode: u32, seed: u32, i: u32) -> u32 {
    var h = (i ^ seed) * 2654435761u;
    h = (h ^ (h >> 15u)) * 2246822519u;
    if (mode == 0u) { return 1u << ((i + seed) & 31u); }
    if (mode == 1u) { return ~(1u << ((i + seed) & 31u)); }
    if (mode == 2u) { return 0xffffffffu; }
    return (h ^ (h >> 13u)) ^ i;
}

KERNEL pattern_write(words: write u32, mode: u32, seed: u32, count: u32) {
    for (var i = ID; i < count; i += ITEMS) { words[i] = pattern(mode, seed, i); }
}

KERNEL pattern_check(words: write u32, wrong: atomic u32, mode: u32, seed: u32, count: u32, flip: u32) {
    for (var i = ID; i < count; i += ITEMS) {
        let right = pattern(mode, seed, i);
        let should = select(right, ~right, flip != 0u);
        let now = words[i];
        if (now != should) {
            let at = atomicAdd(&wrong[0], 1u);
            if (at < 64u) {
                atomicStore(&wrong[1u + 2u * at], i);
                atomicStore(&wrong[2u + 2u * at], now);
            }
        }
        words[i] = ~should;
    }
}

KERNEL count_up(cells: atomic u32, repeats: u32, mask: u32) {
    for (var r = 0u; r < repeats; r++) { atomicAdd(&cells[(ID + r) & mask], 1u); }
}
