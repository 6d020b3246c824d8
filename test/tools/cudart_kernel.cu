// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A program of nvcc, with a kernel and a device variable: prints how each of its calls ends.
#include <cstdio>

__device__ int c = 5;

__global__ void add(int* values, int number)
{
    values[threadIdx.x] += number + c;
}

static void told(const char* what, cudaError_t result)
{
    std::printf("%s: %s\n", what, cudaGetErrorName(result));
}

int main()
{
    int* values = nullptr;
    const int zero = 0;
    told("cudaMalloc", cudaMalloc(&values, 32 * sizeof(int)));
    told("cudaMemcpyToSymbol", cudaMemcpyToSymbol(c, &zero, sizeof(zero)));
    add<<<1, 32>>>(values, 7);
    told("launch", cudaGetLastError());
    told("cudaDeviceSynchronize", cudaDeviceSynchronize());
    told("cudaFree", cudaFree(values));
}
