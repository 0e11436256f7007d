extern "C" __global__ void saxpy(float a, const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}
extern "C" __global__ void __launch_bounds__(1024, 2) heavy(const float* x, float* y, int n) {
    float a[96];
    __shared__ float s[1024];
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 96; i++) a[i] = x[i * 1024 + threadIdx.x] * s[(threadIdx.x + i) & 1023];
    for (int k = 0; k < n; k++) {
#pragma unroll
        for (int i = 0; i < 96; i++) a[i] = __sinf(a[i]) * a[(i * 7 + 3) % 96] + a[(i + 1) % 96];
    }
    float t = 0;
#pragma unroll
    for (int i = 0; i < 96; i++) t += a[i] * i;
    y[threadIdx.x] = t;
}
