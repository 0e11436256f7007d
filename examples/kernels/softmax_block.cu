//: name = "softmax-block"
//: about = "Softmax in CUDA C++, a block a row"
//: workload = "rowwise"
//: only = { op = "softmax", dtype = "fp32" }
//: cases = [{ rows = 4096, columns = 1024 }, { rows = 16384, columns = 4096 }]
//: function = "softmax_block"
//: outputs = { out = { shape = ["rows", "columns"], dtype = "dtype" } }
//: arguments = ["x", "out", "columns:int32"]
//: items = "rows * 256"
//: group = 256

static __device__ float over_block(float value, bool largest)
{
    __shared__ float part[8];
    for (int apart = 16; apart; apart /= 2) {
        float other = __shfl_xor_sync(0xffffffffu, value, apart);
        value = largest ? fmaxf(value, other) : value + other;
    }
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = value;
    __syncthreads();
    value = part[0];
    for (int warp = 1; warp < 8; warp++)
        value = largest ? fmaxf(value, part[warp]) : value + part[warp];
    return value;
}

extern "C" __global__ void softmax_block(const float *__restrict__ x, float *__restrict__ out, int columns)
{
    x += (long long)blockIdx.x * columns;
    out += (long long)blockIdx.x * columns;
    float top = -1e38f, sum = 0.0f;
    for (int i = threadIdx.x; i < columns; i += 256)
        top = fmaxf(top, x[i]);
    top = over_block(top, true);
    for (int i = threadIdx.x; i < columns; i += 256)
        sum += expf(x[i] - top);
    sum = over_block(sum, false);
    for (int i = threadIdx.x; i < columns; i += 256)
        out[i] = expf(x[i] - top) / sum;
}
