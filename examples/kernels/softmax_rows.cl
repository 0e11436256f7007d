//: name = "softmax-rows"
//: about = "Softmax in OpenCL C, a work-item a row"
//: workload = "rowwise"
//: only = { op = "softmax", dtype = "fp32" }
//: cases = [{ rows = 4096, columns = 64 }, { rows = 4096, columns = 256 }]
//: function = "softmax_rows"
//: outputs = { out = { shape = ["rows", "columns"], dtype = "dtype" } }
//: arguments = ["x", "out", "rows:int32", "columns:int32"]
//: items = "rows"
//: group = 64

__kernel void softmax_rows(__global const float *restrict x, __global float *restrict out, int rows, int columns)
{
    int row = get_global_id(0);
    if (row >= rows)
        return;
    x += (long)row * columns;
    out += (long)row * columns;
    float top = -INFINITY, sum = 0.0f;
    for (int i = 0; i < columns; i++)
        top = fmax(top, x[i]);
    for (int i = 0; i < columns; i++)
        sum += out[i] = exp(x[i] - top);
    for (int i = 0; i < columns; i++)
        out[i] /= sum;
}
