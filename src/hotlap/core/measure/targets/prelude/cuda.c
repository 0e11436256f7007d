/* The common C dialect on CUDA C++ (NVRTC, no headers). The same names are defined for OpenCL in opencl.c beside this file.
   half and bf16 are made here on inline PTX, because the pip package of NVRTC brings no cuda_fp16.h. */
typedef unsigned char uchar;
typedef unsigned int uint;
typedef unsigned long long ulong; /* 64 bit everywhere, as in OpenCL */
#define KERNEL extern "C" __global__
#define DEVICE static __device__ __forceinline__
#define GLOBAL
#define RESTRICT __restrict__
#define LOCAL_ARRAY(type, name, count) __shared__ type name[count]
#define ID ((ulong)blockIdx.x * blockDim.x + threadIdx.x)
#define LID ((ulong)threadIdx.x)
#define GROUP_SIZE ((ulong)blockDim.x)
#define ITEMS ((ulong)gridDim.x * blockDim.x)
#define FENCE asm volatile("" ::: "memory")
#define BARRIER __syncthreads()
#define ATOMIC_ADD(pointer, value) atomicAdd((uint *)(pointer), (uint)(value))
#define GLUE_(a, b) a##b
#define GLUE(a, b) GLUE_(a, b)
#define VEC(type, width) GLUE(type, width)
#define SPLAT(type, scalar) (Splat<type>::of(scalar))
#define MAD(a, b, c) (mad((a), (b), (c)))

template <class T> struct Splat {
    template <class S> static __device__ __forceinline__ T of(S s) { return (T)s; }
};
DEVICE float mad(float a, float b, float c) { return fmaf(a, b, c); }
DEVICE double mad(double a, double b, double c) { return fma(a, b, c); }
DEVICE int mad(int a, int b, int c) { return a * b + c; }
DEVICE uint mad(uint a, uint b, uint c) { return a * b + c; }
DEVICE ulong mad(ulong a, ulong b, ulong c) { return a * b + c; }
DEVICE signed char mad(signed char a, signed char b, signed char c) { return (signed char)(a * b + c); }
DEVICE char mad(char a, char b, char c) { return (char)(a * b + c); }
DEVICE uchar mad(uchar a, uchar b, uchar c) { return (uchar)(a * b + c); }

/* ---- 16-bit floats. N: type, P: PTX type, M: its packed form. Products and sums are FMAs, which every chip with the type has;
   -0 and 1 leave the other operand as it is. */
#define SIXTEEN(N, P, ONE, MINUS_ZERO)                                                                                             \
    struct N {                                                                                                                     \
        unsigned short bits;                                                                                                       \
        N() = default;                                                                                                             \
        __device__ __forceinline__ N(float f) { asm("cvt.rn." P ".f32 %0, %1;" : "=h"(bits) : "f"(f)); }                           \
        static __device__ __forceinline__ N raw(unsigned short b) { N r; r.bits = b; return r; }                                   \
        __device__ __forceinline__ explicit operator float() const { return GLUE(N, _to_float)(bits); }                            \
    };                                                                                                                             \
    struct __align__(4) GLUE(N, 2) {                                                                                               \
        uint bits;                                                                                                                 \
        GLUE(N, 2)() = default;                                                                                                    \
        __device__ __forceinline__ GLUE(N, 2)(N s) : bits((uint)s.bits | (uint)s.bits << 16) {}                                    \
    };                                                                                                                             \
    DEVICE N mad(N a, N b, N c) {                                                                                                  \
        N r;                                                                                                                       \
        asm("fma.rn." P " %0, %1, %2, %3;" : "=h"(r.bits) : "h"(a.bits), "h"(b.bits), "h"(c.bits));                                \
        return r;                                                                                                                  \
    }                                                                                                                              \
    DEVICE GLUE(N, 2) mad(GLUE(N, 2) a, GLUE(N, 2) b, GLUE(N, 2) c) {                                                              \
        GLUE(N, 2) r;                                                                                                              \
        asm("fma.rn." P "x2 %0, %1, %2, %3;" : "=r"(r.bits) : "r"(a.bits), "r"(b.bits), "r"(c.bits));                              \
        return r;                                                                                                                  \
    }                                                                                                                              \
    DEVICE N operator+(N a, N b) { return mad(a, N::raw(ONE), b); }                                                                \
    DEVICE N operator*(N a, N b) { return mad(a, b, N::raw(MINUS_ZERO)); }                                                         \
    DEVICE bool operator==(N a, N b) { return (float)a == (float)b; }                                                              \
    DEVICE bool operator!=(N a, N b) { return (float)a != (float)b; }                                                              \
    DEVICE GLUE(N, 2) operator+(GLUE(N, 2) a, GLUE(N, 2) b) { return mad(a, GLUE(N, 2)(N::raw(ONE)), b); }                         \
    DEVICE GLUE(N, 2) operator*(GLUE(N, 2) a, GLUE(N, 2) b) { return mad(a, b, GLUE(N, 2)(N::raw(MINUS_ZERO))); }                  \
    struct __align__(8) GLUE(N, 4) {                                                                                               \
        GLUE(N, 2) lo, hi;                                                                                                         \
        GLUE(N, 4)() = default;                                                                                                    \
        __device__ __forceinline__ GLUE(N, 4)(N s) : lo(s), hi(s) {}                                                               \
        __device__ __forceinline__ GLUE(N, 4)(GLUE(N, 2) l, GLUE(N, 2) h) : lo(l), hi(h) {}                                        \
    };                                                                                                                             \
    DEVICE GLUE(N, 4) mad(GLUE(N, 4) a, GLUE(N, 4) b, GLUE(N, 4) c) { return {mad(a.lo, b.lo, c.lo), mad(a.hi, b.hi, c.hi)}; }     \
    DEVICE GLUE(N, 4) operator+(GLUE(N, 4) a, GLUE(N, 4) b) { return {a.lo + b.lo, a.hi + b.hi}; }                                 \
    DEVICE GLUE(N, 4) operator*(GLUE(N, 4) a, GLUE(N, 4) b) { return {a.lo * b.lo, a.hi * b.hi}; }

DEVICE float half_to_float(unsigned short bits) {
    float f;
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(bits));
    return f;
}
SIXTEEN(half, "f16", 0x3c00, 0x8000)
#if __CUDA_ARCH__ >= 800
DEVICE float bf16_to_float(unsigned short bits) { return __uint_as_float((uint)bits << 16); } /* the upper half of an fp32 */
SIXTEEN(bf16, "bf16", 0x3f80, 0x8000)
#endif

/* ---- CUDA's own vectors have no arithmetic: + and * between two, and with a scalar on the right or the left. */
#define EACH_2(F) F(x), F(y)
#define EACH_4(F) F(x), F(y), F(z), F(w)
#define ADD_(m) a.m + b.m
#define MUL_(m) a.m * b.m
#define MAD_(m) mad(a.m, b.m, c.m)
#define SAME_(m) s
#define VECTOR(V, S, EACH_)                                                                                                        \
    template <> struct Splat<V> {                                                                                                  \
        static __device__ __forceinline__ V of(S s) { return V{EACH_(SAME_)}; }                                                    \
    };                                                                                                                             \
    DEVICE V operator+(V a, V b) { return V{EACH_(ADD_)}; }                                                                        \
    DEVICE V operator*(V a, V b) { return V{EACH_(MUL_)}; }                                                                        \
    DEVICE V operator+(V a, S s) { return a + Splat<V>::of(s); }                                                                   \
    DEVICE V operator*(V a, S s) { return a * Splat<V>::of(s); }                                                                   \
    DEVICE V operator*(S s, V a) { return a * Splat<V>::of(s); }                                                                   \
    DEVICE V mad(V a, V b, V c) { return V{EACH_(MAD_)}; }
VECTOR(float2, float, EACH_2)
VECTOR(float4, float, EACH_4)
VECTOR(double2, double, EACH_2)
VECTOR(int2, int, EACH_2)
VECTOR(int4, int, EACH_4)
VECTOR(uint2, uint, EACH_2)
VECTOR(uint4, uint, EACH_4)
/* Narrow whole numbers wrap round, as in OpenCL C; the chip computes them in 32 bits. */
#define NARROW_ADD_(m) (decltype(a.m))(a.m + b.m)
#define NARROW_MUL_(m) (decltype(a.m))(a.m * b.m)
#define NARROW(V, S, EACH_)                                                                                                        \
    template <> struct Splat<V> {                                                                                                  \
        static __device__ __forceinline__ V of(S s) { return V{EACH_(SAME_)}; }                                                    \
    };                                                                                                                             \
    DEVICE V operator+(V a, V b) { return V{EACH_(NARROW_ADD_)}; }                                                                 \
    DEVICE V operator*(V a, V b) { return V{EACH_(NARROW_MUL_)}; }                                                                 \
    DEVICE V mad(V a, V b, V c) { return V{EACH_(MAD_)}; }
NARROW(char2, signed char, EACH_2)
NARROW(char4, signed char, EACH_4)
NARROW(uchar2, uchar, EACH_2)
NARROW(uchar4, uchar, EACH_4)
