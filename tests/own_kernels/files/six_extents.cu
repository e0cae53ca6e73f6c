#include <wb.h>
#define wbCheck(stmt) do { cudaError_t err = stmt; if (err != cudaSuccess) { wbLog(ERROR, "Failed", #stmt); return -1; } } while (0)
__global__ void matrixMultiplyShared(float *A, float *B, float *C, int numARows, int numAColumns, int numBRows,
                                     int numBColumns, int numCRows, int numCColumns) {
  __shared__ float ds_A[16][16];
  __shared__ float ds_B[16][16];
  int bx = blockIdx.x, by = blockIdx.y, tx = threadIdx.x, ty = threadIdx.y;
  int Row = by * 16 + ty, Col = bx * 16 + tx;
  float v = 0;
  for (int p = 0; p < (numAColumns - 1) / 16 + 1; ++p) {
    if (Row < numARows && p * 16 + tx < numAColumns) ds_A[ty][tx] = A[Row * numAColumns + p * 16 + tx]; else ds_A[ty][tx] = 0;
    if (p * 16 + ty < numBRows && Col < numBColumns) ds_B[ty][tx] = B[(p * 16 + ty) * numBColumns + Col]; else ds_B[ty][tx] = 0;
    __syncthreads();
    for (int i = 0; i < 16; ++i) v += ds_A[ty][i] * ds_B[i][tx];
    __syncthreads();
  }
  if (Row < numCRows && Col < numCColumns) C[Row * numCColumns + Col] = v;
}
int main(int argc, char **argv) {
  wbArg_t args;
  float *dA, *dB, *dC;
  int numARows, numAColumns, numBRows, numBColumns, numCRows, numCColumns;
  args = wbArg_read(argc, argv);
  numCRows = numARows;
  numCColumns = numBColumns;
  cudaMalloc((void **)&dA, sizeof(float) * numARows * numAColumns);
  dim3 dimGrid((numCColumns - 1) / 16 + 1, (numCRows - 1) / 16 + 1, 1);
  dim3 dimBlock(16, 16, 1);
  matrixMultiplyShared<<<dimGrid, dimBlock>>>(dA, dB, dC, numARows, numAColumns, numBRows, numBColumns, numCRows, numCColumns);
}
