// Matrix products and operations on rows in WGSL, fp32. Groups of 256.

// ---- product: a group makes 64 × 64 of C, an item 4 × 4 of that; 16 of k at a time are kept in the group's memory.
var<workgroup> left: array<f32, 1024>;
var<workgroup> right: array<f32, 1024>;

KERNEL product(a: read f32, b: read f32, c: write f32, m: u32, n: u32, k: u32, wide: u32) {
    let group = ID / GROUP_SIZE;
    let top = group / wide * 64u;
    let side = group % wide * 64u;
    let y = LID / 16u * 4u;
    let x = LID % 16u * 4u;
    var sums = array<vec4f, 4>();
    for (var at = 0u; at < k; at += 16u) {
        for (var part = 0u; part < 4u; part++) {
            let place = LID + part * 256u;
            let row = top + place / 16u;
            let inner = at + place % 16u;
            left[place % 16u * 64u + place / 16u] = select(0.0, a[min(row, m - 1u) * k + min(inner, k - 1u)], row < m && inner < k);
            let other = at + place / 64u;
            let column = side + place % 64u;
            right[place] = select(0.0, b[min(other, k - 1u) * n + min(column, n - 1u)], other < k && column < n);
        }
        workgroupBarrier();
        for (var step = 0u; step < 16u; step++) {
            let l = step * 64u + y;
            let r = step * 64u + x;
            let line = vec4f(right[r], right[r + 1u], right[r + 2u], right[r + 3u]);
            sums[0] += left[l] * line;
            sums[1] += left[l + 1u] * line;
            sums[2] += left[l + 2u] * line;
            sums[3] += left[l + 3u] * line;
        }
        workgroupBarrier();
    }
    for (var part = 0u; part < 16u; part++) {
        let row = top + y + part / 4u;
        let column = side + x + part % 4u;
        if (row < m && column < n) { c[row * n + column] = sums[part / 4u][part % 4u]; }
    }
}

// ---- rows: a group takes a row after another; the last one again where there are none left.
var<workgroup> shared_: array<f32, 256>;

fn added(lane: u32, value: f32) -> f32 {
    shared_[lane] = value;
    workgroupBarrier();
    for (var half = GROUP_SIZE / 2u; half > 0u; half /= 2u) {
        if (lane < half) { shared_[lane] += shared_[lane + half]; }
        workgroupBarrier();
    }
    let all = shared_[0];
    workgroupBarrier();
    return all;
}

fn largest(lane: u32, value: f32) -> f32 {
    shared_[lane] = value;
    workgroupBarrier();
    for (var half = GROUP_SIZE / 2u; half > 0u; half /= 2u) {
        if (lane < half) { shared_[lane] = max(shared_[lane], shared_[lane + half]); }
        workgroupBarrier();
    }
    let all = shared_[0];
    workgroupBarrier();
    return all;
}

KERNEL rows_sum(out: write f32, data: read f32, rows: u32, columns: u32, turns: u32) {
    for (var turn = 0u; turn < turns; turn++) {
        let row = min(ID / GROUP_SIZE + turn * (ITEMS / GROUP_SIZE), rows - 1u);
        var sum = 0.0;
        for (var at = LID; at < columns; at += GROUP_SIZE) { sum += data[row * columns + at]; }
        let all = added(LID, sum);
        if (LID == 0u) { out[row] = all; }
    }
}

KERNEL rows_max(out: write f32, data: read f32, rows: u32, columns: u32, turns: u32) {
    for (var turn = 0u; turn < turns; turn++) {
        let row = min(ID / GROUP_SIZE + turn * (ITEMS / GROUP_SIZE), rows - 1u);
        var most = data[row * columns];
        for (var at = LID; at < columns; at += GROUP_SIZE) { most = max(most, data[row * columns + at]); }
        let all = largest(LID, most);
        if (LID == 0u) { out[row] = all; }
    }
}

KERNEL rows_softmax(out: write f32, data: read f32, rows: u32, columns: u32, turns: u32) {
    for (var turn = 0u; turn < turns; turn++) {
        let row = min(ID / GROUP_SIZE + turn * (ITEMS / GROUP_SIZE), rows - 1u);
        var most = data[row * columns];
        for (var at = LID; at < columns; at += GROUP_SIZE) { most = max(most, data[row * columns + at]); }
        most = largest(LID, most);
        var sum = 0.0;
        for (var at = LID; at < columns; at += GROUP_SIZE) { sum += exp(data[row * columns + at] - most); }
        let share = 1.0 / added(LID, sum);
        for (var at = LID; at < columns; at += GROUP_SIZE) { out[row * columns + at] = exp(data[row * columns + at] - most) * share; }
    }
}

KERNEL rows_rmsnorm(out: write f32, data: read f32, weight: read f32, rows: u32, columns: u32, turns: u32, epsilon: f32) {
    for (var turn = 0u; turn < turns; turn++) {
        let row = min(ID / GROUP_SIZE + turn * (ITEMS / GROUP_SIZE), rows - 1u);
        var sum = 0.0;
        for (var at = LID; at < columns; at += GROUP_SIZE) { sum += data[row * columns + at] * data[row * columns + at]; }
        let scale = inverseSqrt(added(LID, sum) / f32(columns) + epsilon);
        for (var at = LID; at < columns; at += GROUP_SIZE) { out[row * columns + at] = data[row * columns + at] * scale * weight[at]; }
    }
}
