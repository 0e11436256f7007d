// Memory workloads in WGSL, as in memory.c. S: scalar type, T: vector type of S, BLOCKED: each work-item owns a contiguous stretch.

fn hash(i: u32, seed: u32, mask: u32) -> u32 {
    var u = i * 2654435761u ^ seed;
    u = (u ^ (u >> 16u)) * 0x45d9f3bu;
    return (u ^ (u >> 16u)) & mask;
}
fn share_from(me: u32, n: u32) -> u32 { return select(me, me * (n / ITEMS) + min(me, n % ITEMS), BLOCKED); }
fn share_until(me: u32, n: u32) -> u32 { return select(n, (me + 1u) * (n / ITEMS) + min(me + 1u, n % ITEMS), BLOCKED); }
fn share_step() -> u32 { return select(ITEMS, 1u, BLOCKED); }
fn place_in(p: u32) -> u32 { return select((ID + p * 61u * GROUP_SIZE) % ITEMS, ID, BLOCKED); }

KERNEL fill(a: write S, n: u32, seed: u32, mask: u32) {
    let end = share_until(ID, n);
    for (var i = share_from(ID, n); i < end; i += share_step()) { a[i] = S(hash(i, seed, mask)); }
}

// Two words of 32 bits each: a sum of 64.
KERNEL fill_sum(sums: write u32, n: u32, seed: u32, mask: u32) {
    var low = 0u;
    var high = 0u;
    let end = share_until(ID, n);
    for (var i = share_from(ID, n); i < end; i += share_step()) {
        let value = hash(i, seed, mask);
        low += value;
        high += select(0u, 1u, low < value);
    }
    sums[2u * ID] = low;
    sums[2u * ID + 1u] = high;
}

KERNEL stream_read(a: write T, b: read T, c: read T, n: u32, passes: u32, s: S) {
    var s0 = T(s);
    var s1 = T(S(0));
    var s2 = T(S(0));
    var s3 = T(S(0));
    let step = share_step();
    for (var p = 0u; p < passes; p++) {
        let me = place_in(p);
        let end = share_until(me, n);
        var i = share_from(me, n);
        for (; i + 3u * step < end; i += 4u * step) {
            s0 += b[i];
            s1 += b[i + step];
            s2 += b[i + 2u * step];
            s3 += b[i + 3u * step];
        }
        for (; i < end; i += step) { s0 += b[i]; }
        storageBarrier();
    }
    a[ID] = s0 + s1 + (s2 + s3);
}

KERNEL stream_write(a: write T, b: read T, c: read T, n: u32, passes: u32, s: S) {
    for (var p = 0u; p < passes; p++) {
        let v = T(s + S(passes - 1u - p));
        let me = place_in(p);
        let end = share_until(me, n);
        for (var i = share_from(me, n); i < end; i += share_step()) { a[i] = v; }
        storageBarrier();
    }
}

KERNEL stream_copy(a: write T, b: read T, c: read T, n: u32, passes: u32, s: S) {
    for (var p = 0u; p < passes; p++) {
        let me = place_in(p);
        let end = share_until(me, n);
        for (var i = share_from(me, n); i < end; i += share_step()) { a[i] = b[i]; }
        storageBarrier();
    }
}

KERNEL stream_scale(a: write T, b: read T, c: read T, n: u32, passes: u32, s: S) {
    for (var p = 0u; p < passes; p++) {
        let v = T(s + S(passes - 1u - p));
        let me = place_in(p);
        let end = share_until(me, n);
        for (var i = share_from(me, n); i < end; i += share_step()) { a[i] = v * b[i]; }
        storageBarrier();
    }
}

KERNEL stream_add(a: write T, b: read T, c: read T, n: u32, passes: u32, s: S) {
    for (var p = 0u; p < passes; p++) {
        let me = place_in(p);
        let end = share_until(me, n);
        for (var i = share_from(me, n); i < end; i += share_step()) { a[i] = b[i] + c[i]; }
        storageBarrier();
    }
}

KERNEL stream_triad(a: write T, b: read T, c: read T, n: u32, passes: u32, s: S) {
    for (var p = 0u; p < passes; p++) {
        let v = T(s + S(passes - 1u - p));
        let me = place_in(p);
        let end = share_until(me, n);
        for (var i = share_from(me, n); i < end; i += share_step()) { a[i] = b[i] + v * c[i]; }
        storageBarrier();
    }
}

KERNEL stream_verify(a: read S, n: u32, seed_b: u32, seed_c: u32, kb: S, kc: S, k: S, wrong: atomic u32) {
    var bad = 0u;
    let end = share_until(ID, n);
    for (var i = share_from(ID, n); i < end; i += share_step()) {
        let right = kb * S(hash(i, seed_b, 1023u)) + kc * S(hash(i, seed_c, 1023u)) + k;
        bad += select(0u, 1u, a[i] != right);
    }
    if (bad > 0u) { atomicAdd(&wrong[0], bad); }
}

KERNEL gather_random(out: write f32, table: read f32, index: read u32, n: u32, stride: u32) {
    let end = share_until(ID, n);
    for (var i = share_from(ID, n); i < end; i += share_step()) { out[i] = table[index[i]]; }
}

KERNEL gather_strided(out: write f32, table: read f32, index: read u32, n: u32, stride: u32) {
    let end = share_until(ID, n);
    for (var i = share_from(ID, n); i < end; i += share_step()) { out[i] = table[i * stride]; }
}

KERNEL chase(next: read u32, place: write u32, hops: u32) {
    var p = place[0];
    for (var h = 0u; h < hops; h++) { p = next[p]; }
    place[0] = p;
}
