// What all exercises share.
#ifndef COMMON_H
#define COMMON_H

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cuda_runtime.h>

#define CHECK(call) check_((call), #call, __FILE__, __LINE__)

inline void check_(cudaError_t code, const char* what, const char* file, int line)
{
    if (code != cudaSuccess) {
        std::fprintf(stderr, "%s(%d): %s failed: %s\n", file, line, what, cudaGetErrorString(code));
        std::exit(1);
    }
}

inline int divide_up(int a, int b) { return (a + b - 1) / b; }

inline float* device_random(int count)
{
    std::vector<float> values(count);
    for (float& v : values) v = static_cast<float>(std::rand()) / RAND_MAX;
    float* p = nullptr;
    CHECK(cudaMalloc(&p, count * sizeof(float)));
    CHECK(cudaMemcpy(p, values.data(), count * sizeof(float), cudaMemcpyHostToDevice));
    return p;
}

class Timer {
public:
    void start() { begin_ = std::chrono::steady_clock::now(); }
    double stop() const
    {
        return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin_).count();
    }

private:
    std::chrono::steady_clock::time_point begin_;
};

#endif
