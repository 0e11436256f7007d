/* The common C dialect on OpenCL C. The same names are defined for CUDA in cuda.c beside this file. */
#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
#ifdef cl_khr_fp16
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#endif
#define KERNEL __kernel
#define GLOBAL __global
#define RESTRICT restrict
#define LOCAL_ARRAY(type, name, count) __local type name[count]
#define ID get_global_id(0)
#define LID get_local_id(0)
#define GROUP_SIZE get_local_size(0)
#define ITEMS get_global_size(0)
#define FENCE mem_fence(CLK_GLOBAL_MEM_FENCE)
#define BARRIER barrier(CLK_LOCAL_MEM_FENCE)
#define ATOMIC_ADD(pointer, value) atomic_add((volatile __global uint *)(pointer), (uint)(value))
#define GLUE_(a, b) a##b
#define GLUE(a, b) GLUE_(a, b)
#define VEC(type, width) GLUE(type, width)
#define SPLAT(type, scalar) ((type)(scalar))
#define MAD(a, b, c) ((a) * (b) + (c)) /* one FMA with -cl-mad-enable; fma() and mad() are 7 to 14 times slower on PoCL */
#define DEVICE /* a function that kernels call: __device__ on CUDA */
