// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What the examples have in common whose kernels initiate operations: errors, GPU memory, and
// connections to other ranks, for which MPI carries the bytes.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include <cuda_runtime.h>
#include <mpi.h>
#include <ucx-gdr/ugdr.h>
#include <ucx-gdr/ugdr_initiate.cuh>

[[noreturn]] inline void fail(const char* what, const char* why)
{
    std::fprintf(stderr, "%s: %s\n", what, why);
    MPI_Abort(MPI_COMM_WORLD, 1);
    std::abort();
}

#define CUDA(call) check_cuda(call, #call)
inline void check_cuda(cudaError_t result, const char* what)
{
    if (result != cudaSuccess) {
        fail(what, cudaGetErrorString(result));
    }
}
#define GDR(call) check_gdr(call, #call)
inline void check_gdr(ucs_status_t status, const char* what)
{
    if (status != UCS_OK) {
        fail(what, ucs_status_string(status));
    }
}

template <class Value>
Value* on_gpu(size_t count)
{
    void* memory;
    CUDA(cudaMalloc(&memory, count * sizeof(Value)));
    CUDA(cudaMemset(memory, 0, count * sizeof(Value)));
    CUDA(cudaDeviceSynchronize()); // neither streams nor peers wait for it
    return static_cast<Value*>(memory);
}

class Peers {
  public:
    // Connects to these ranks, in ascending order. All ranks call it, and the other functions.
    Peers(const std::vector<int>& ranks, unsigned channels) : channels_(channels)
    {
        ucp_params_t ucp = {}; // where a rank has no HCA
        ucp.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED;
        ucp.features = UCP_FEATURE_RMA | UCP_FEATURE_AMO64;
        ucp.mt_workers_shared = 1;
        ucp_context_h ucp_context;
        GDR(ucp_init(&ucp, nullptr, &ucp_context));
        ugdr_context_params_t params = {};
        params.field_mask = UGDR_CONTEXT_PARAM_FIELD_UCP_CONTEXT;
        params.ucp_context = ucp_context;
        GDR(ugdr_context_create(&params, &context_));
        for (int rank : ranks) {
            connect(rank);
        }
        MPI_Barrier(MPI_COMM_WORLD); // before anything is sent
    }
    Peers(const Peers&) = delete;
    Peers& operator=(const Peers&) = delete;

    template <class Value>
    ugdr_mem_h map(Value* memory, size_t count)
    {
        ugdr_mem_h mapped;
        GDR(ugdr_mem_map(context_, memory, count * sizeof(Value), &mapped));
        return mapped;
    }

    // The number of the other rank's memory that is there what own is here.
    unsigned import(int rank, ugdr_mem_h own)
    {
        const void* blob;
        size_t length;
        GDR(ugdr_mem_export(own, &blob, &length));
        const std::string theirs = exchange(rank, blob, length);
        ugdr_rmem_h imported;
        GDR(ugdr_rmem_import(peers_[rank], theirs.data(), theirs.size(), &imported));
        return ugdr_rmem_id(imported);
    }

    // For kernels of the current GPU; a thread for each channel.
    ugdr_dev_t open_device()
    {
        ugdr_device_h device;
        ugdr_dev_t handle;
        ugdr_device_params_t params = {};
        params.field_mask = UGDR_DEVICE_PARAM_FIELD_CHANNELS | UGDR_DEVICE_PARAM_FIELD_THREADS;
        params.channels = params.threads = channels_;
        GDR(ugdr_device_open(context_, &params, &device));
        GDR(ugdr_device_handle(device, &handle));
        return handle;
    }

  private:
    // The other rank's bytes for ours.
    static std::string exchange(int rank, const void* bytes, size_t length)
    {
        std::string theirs(65536, '\0');
        MPI_Status status;
        int count;
        MPI_Sendrecv(bytes, static_cast<int>(length), MPI_BYTE, rank, 0, &theirs[0],
                     static_cast<int>(theirs.size()), MPI_BYTE, rank, 0, MPI_COMM_WORLD, &status);
        MPI_Get_count(&status, MPI_BYTE, &count);
        theirs.resize(count);
        return theirs;
    }

    void connect(int rank)
    {
        ugdr_peer_params_t params = {};
        params.field_mask = UGDR_PEER_PARAM_FIELD_CHANNELS;
        params.channels = channels_;
        const void* blob;
        size_t length;
        GDR(ugdr_peer_create(context_, &params, &peers_[rank]));
        GDR(ugdr_peer_export(peers_[rank], &blob, &length));
        const std::string theirs = exchange(rank, blob, length);
        GDR(ugdr_peer_connect(peers_[rank], theirs.data(), theirs.size()));
    }

    const unsigned channels_;
    ugdr_context_h context_ = nullptr;
    std::map<int, ugdr_peer_h> peers_;
};
