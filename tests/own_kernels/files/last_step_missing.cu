#include <iostream>
#define ROWS 64
#define COLS 64
using namespace std;
__global__ void mul(float *a, float *b, float *c) {
    int x = threadIdx.x + blockIdx.x * blockDim.x;
    int y = threadIdx.y + blockIdx.y * blockDim.y;
    float s = 0;
    for (int i = 0; i < COLS - 1; i++)
        s += a[y * COLS + i] * b[i * COLS + x];
    c[y * COLS + x] = s;
}
int main() {
    float h[ROWS][COLS];
    float *da, *db, *dc;
    cudaMalloc(&da, sizeof(h)); cudaMalloc(&db, sizeof(h)); cudaMalloc(&dc, ROWS * COLS * sizeof(float));
    mul<<<dim3(COLS/16, ROWS/16), dim3(16, 16)>>>(da, db, dc);
}
