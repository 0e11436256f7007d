// Shaders of the graphics workloads. Constants in capitals stand before the text.

// ---- fill, overdraw: one instance is a layer, from its top row down to the bottom. layers: colour, then (top in NDC, depth, 0, 0).
@group(0) @binding(0) var<storage, read> layers: array<vec4f>;
struct Layer { @builtin(position) at: vec4f, @location(0) @interpolate(flat) colour: vec4f }
@vertex fn layer(@builtin(vertex_index) v: u32, @builtin(instance_index) l: u32) -> Layer {
    let place = layers[2u * l + 1u];
    let x = f32(v & 1u) * 2.0 - 1.0;
    return Layer(vec4f(x, select(-1.0, place.x, v < 2u), place.y, 1.0), layers[2u * l]);
}
@fragment fn plain(in: Layer) -> @location(0) vec4f { return in.colour; }

// ---- texture: one triangle over everything; taps go round the levels.
@group(0) @binding(0) var image: texture_2d<f32>;
@group(0) @binding(1) var image_sampler: sampler;
@vertex fn whole(@builtin(vertex_index) v: u32) -> @builtin(position) vec4f {
    return vec4f(f32(v & 1u) * 4.0 - 1.0, f32(v >> 1u) * 4.0 - 1.0, 0.5, 1.0);
}
@fragment fn taps(@builtin(position) at: vec4f) -> @location(0) vec4f {
    var sum = vec4f(0.0);
    for (var k = 0u; k < TAPS; k++) {
        let level = k % LEVELS;
        let place = floor(at.xy) + vec2f(f32(k * 5u), f32(k * 3u)) + OFFSET;
        sum += textureSampleLevel(image, image_sampler, place / f32(TEXELS >> level), f32(level) + BETWEEN);
    }
    return sum;
}

// ---- geometry, draws: each triangle or square writes a hash of its number.
@group(0) @binding(0) var<uniform> seed: vec4u; // seed, which parity faces away, whether any does
struct Numbered { @builtin(position) at: vec4f, @location(0) @interpolate(flat) value: u32 }
fn mixed(number: u32) -> u32 {
    var u = (number + 1u) * 2654435761u ^ seed.x;
    u = (u ^ (u >> 16u)) * 0x45d9f3bu;
    return u ^ (u >> 16u);
}
fn spot(pixel: vec2f) -> vec4f { return vec4f(pixel.x * 2.0 / f32(SIDE) - 1.0, 1.0 - pixel.y * 2.0 / f32(SIDE), 0.5, 1.0); }
@vertex fn triangle(@builtin(vertex_index) v: u32) -> Numbered {
    let number = v / 3u;
    let away = seed.z != 0u && (number & 1u) == seed.y;
    let turn = select(v % 3u, 2u - v % 3u, away);
    let leg = f32(CELL) + 0.5;
    let corner = vec2f(select(0.0, leg, turn == 2u), select(0.0, leg, turn == 1u));
    let origin = vec2f(f32(number % (SIDE / CELL) * CELL), f32(number / (SIDE / CELL) * CELL));
    return Numbered(spot(origin + corner), mixed(number));
}
@vertex fn square(@builtin(vertex_index) v: u32, @builtin(instance_index) number: u32) -> Numbered {
    let origin = vec2f(f32(number % (SIDE / CELL) * CELL), f32(number / (SIDE / CELL) * CELL));
    return Numbered(spot(origin + vec2f(f32(v & 1u), f32(v >> 1u)) * f32(CELL)), mixed(number));
}
@fragment fn numbered(in: Numbered) -> @location(0) u32 { return in.value; }
