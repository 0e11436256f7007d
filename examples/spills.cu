// A kernel that keeps 64 sums of a row in registers. Compiled for two blocks of 1024 threads it may use 32 registers a thread, and spills;
// with -DFIX it may use 128, and does not:
//
//   hotlap compiled examples/spills.cu --flags= --flags=-DFIX

#ifdef FIX
#define BOUNDS __launch_bounds__(256, 2)
#else
#define BOUNDS __launch_bounds__(1024, 2)
#endif

extern "C" __global__ void BOUNDS sums(const float* rows, float* out, int columns) {
    float sum[64];
#pragma unroll
    for (int i = 0; i < 64; i++) sum[i] = 0.0f;
    const float* row = rows + (size_t)(blockIdx.x * blockDim.x + threadIdx.x) * columns;
    for (int c = 0; c < columns; c++) {
        float value = row[c];
#pragma unroll
        for (int i = 0; i < 64; i++) sum[i] = fmaf(value, value * i, sum[i]);
    }
    float total = 0.0f;
#pragma unroll
    for (int i = 0; i < 64; i++) total += sum[i] * sum[(i + 1) % 64];
    out[blockIdx.x * blockDim.x + threadIdx.x] = total;
}
