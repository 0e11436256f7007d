/* Softmax in C, a row after the other. Build: cc -O3 -march=native -ffast-math -shared -fPIC -o softmax_c.so softmax_c.c -lm */
#include <math.h>

void softmax_c(const float *restrict x, float *restrict out, int rows, int columns)
{
    for (long row = 0; row < rows; row++, x += columns, out += columns) {
        float top = x[0], sum = 0.0f;
        for (int i = 1; i < columns; i++)
            top = x[i] > top ? x[i] : top;
        for (int i = 0; i < columns; i++)
            sum += out[i] = expf(x[i] - top);
        for (int i = 0; i < columns; i++)
            out[i] /= sum;
    }
}
