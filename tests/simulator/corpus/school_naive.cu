// Matrixmultiplikation auf der Grafikkarte: jeder Thread berechnet genau ein Element von C.
#include <stdio.h>
#include <stdlib.h>
#include <cuda_runtime.h>

#define FEHLER(aufruf)                                                                  \
    do {                                                                                \
        cudaError_t fehler = (aufruf);                                                  \
        if (fehler != cudaSuccess) {                                                    \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(fehler)); \
            exit(EXIT_FAILURE);                                                         \
        }                                                                               \
    } while (0)

__global__ void multipliziere(const float *A, const float *B, float *C, int M, int N, int K)
{
    int zeile = blockIdx.y * blockDim.y + threadIdx.y;
    int spalte = blockIdx.x * blockDim.x + threadIdx.x;

    if (zeile >= M || spalte >= N)   // am Rand gibt es mehr Threads als Elemente
        return;

    float summe = 0.0f;
    for (int k = 0; k < K; k++)
        summe += A[zeile * K + k] * B[k * N + spalte];
    C[zeile * N + spalte] = summe;
}

int main(void)
{
    const int M = 300, N = 200, K = 100;
    float *hA = (float *)malloc(M * K * sizeof(float)), *hB = (float *)malloc(K * N * sizeof(float));
    float *hC = (float *)malloc(M * N * sizeof(float));
    for (int i = 0; i < M * K; i++) hA[i] = rand() / (float)RAND_MAX;
    for (int i = 0; i < K * N; i++) hB[i] = rand() / (float)RAND_MAX;

    float *dA, *dB, *dC;
    FEHLER(cudaMalloc(&dA, M * K * sizeof(float)));
    FEHLER(cudaMalloc(&dB, K * N * sizeof(float)));
    FEHLER(cudaMalloc(&dC, M * N * sizeof(float)));
    FEHLER(cudaMemcpy(dA, hA, M * K * sizeof(float), cudaMemcpyHostToDevice));
    FEHLER(cudaMemcpy(dB, hB, K * N * sizeof(float), cudaMemcpyHostToDevice));

    dim3 block(16, 16);
    dim3 gitter((N + block.x - 1) / block.x, (M + block.y - 1) / block.y);
    multipliziere<<<gitter, block>>>(dA, dB, dC, M, N, K);
    FEHLER(cudaGetLastError());
    FEHLER(cudaMemcpy(hC, dC, M * N * sizeof(float), cudaMemcpyDeviceToHost));
    printf("C[0] = %f\n", hC[0]);

    cudaFree(dA); cudaFree(dB); cudaFree(dC);
    free(hA); free(hB); free(hC);
    return 0;
}
