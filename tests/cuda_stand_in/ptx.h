/* What the C that ptx.py writes stands on. Registers hold bits; these read and write them as numbers. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
typedef struct { uint32_t grid[3], block[3]; uint8_t *shared; int *fault; } Launch;
#define INLINE static inline __attribute__((always_inline))
INLINE float to_f32(uint32_t bits) { float f; memcpy(&f, &bits, 4); return f; }
INLINE double to_f64(uint64_t bits) { double f; memcpy(&f, &bits, 8); return f; }
INLINE uint32_t to_f32_bits(float f) { uint32_t bits; memcpy(&bits, &f, 4); return bits; }
INLINE uint64_t to_f64_bits(double f) { uint64_t bits; memcpy(&bits, &f, 8); return bits; }
INLINE float to_f16(uint16_t bits) { _Float16 f; memcpy(&f, &bits, 2); return (float)f; }
/* An fp32 that, rounded to 16 bits, is what `x` rounded once would be: cut, and its last bit set where something was cut off. */
INLINE float odd(double x) {
    float f = (float)x;
    if ((double)f == x || x != x || isinf(f)) return f;
    uint32_t bits = to_f32_bits(f);
    if (fabs((double)f) > fabs(x)) bits--;
    return to_f32(bits | 1);
}
INLINE uint16_t to_f16_bits(double x) { _Float16 f = (_Float16)odd(x); uint16_t bits; memcpy(&bits, &f, 2); return bits; }
INLINE float to_bf16(uint16_t bits) { return to_f32((uint32_t)bits << 16); }
INLINE uint16_t to_bf16_bits(double x) { /* to the nearest, ties to even */
    float f = odd(x);
    uint32_t bits = to_f32_bits(f);
    return f != f ? 0x7fff : (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
INLINE uint16_t fma_f16(uint16_t a, uint16_t b, uint16_t c) { return to_f16_bits(fma(to_f16(a), to_f16(b), to_f16(c))); }
INLINE uint16_t fma_bf16(uint16_t a, uint16_t b, uint16_t c) { return to_bf16_bits(fma(to_bf16(a), to_bf16(b), to_bf16(c))); }
#define PAIR(f, a, b, c) ((uint32_t)f((uint16_t)(a), (uint16_t)(b), (uint16_t)(c)) | (uint32_t)f((a) >> 16, (b) >> 16, (c) >> 16) << 16)
INLINE uint32_t fma_f16x2(uint32_t a, uint32_t b, uint32_t c) { return PAIR(fma_f16, a, b, c); }
INLINE uint32_t fma_bf16x2(uint32_t a, uint32_t b, uint32_t c) { return PAIR(fma_bf16, a, b, c); }
INLINE uint32_t permute(uint32_t a, uint32_t b, uint32_t selector) {
    uint64_t bytes = a | (uint64_t)b << 32;
    uint32_t result = 0;
    for (int i = 0; i < 4; i++) {
        uint32_t choice = selector >> (4 * i) & 15, byte = (uint32_t)(bytes >> (8 * (choice & 7))) & 255;
        if (choice & 8) byte = byte & 128 ? 255 : 0; /* its sign, eight times */
        result |= byte << (8 * i);
    }
    return result;
}
INLINE uint32_t dot4_ss(uint32_t a, uint32_t b, uint32_t c) { for (int i = 0; i < 32; i += 8) c += (uint32_t)((int8_t)(a >> i) * (int8_t)(b >> i)); return c; }
INLINE uint32_t dot4_uu(uint32_t a, uint32_t b, uint32_t c) { for (int i = 0; i < 32; i += 8) c += (uint32_t)((uint8_t)(a >> i) * (uint8_t)(b >> i)); return c; }
#define BIAS (1ull << 56) /* device addresses carry it: a kernel that follows a host's address faults */
#define GLOBAL(address) ((uint8_t *)((uint64_t)(address) ^ BIAS))
#define QUOTIENT(a, b) ((b) ? (a) / (b) : -1) /* division by zero does not fault on a GPU */
#define REMAINDER(a, b) ((b) ? (a) % (b) : (a))
#define LEFT(a, by, width) ((by) >= width ? 0 : (a) << (by))
#define RIGHT(a, by, width) ((a) >> ((by) >= width ? width - 1 : (by)) >> ((by) >= width))
