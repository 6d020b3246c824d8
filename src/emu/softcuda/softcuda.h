/* Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE. */
/*
 * What softcuda, the emulated CUDA driver, offers beyond the driver API: the way an emulated HCA
 * reaches device memory, host functions in the place of kernels, and counts of API calls for tests.
 * The functions are exported by softcuda's libcuda.so.1; a library that must also work beside the
 * real driver looks them up with dlsym() and takes their absence to mean a real driver.
 *
 * Device memory is a range of addresses that the CPU cannot touch (SIGSEGV) and, elsewhere in the
 * address space, a readable and writable alias of the same bytes. Alias addresses and the memory
 * behind them are never used for a second allocation, while device addresses are: whoever holds on
 * to an alias or a mapping of freed memory sees memory that belongs to nobody, as an HCA does that
 * still has the old pages registered.
 *
 * Environment: SOFTCUDA_DEVICES     number of devices, 0 to 16 (default 2)
 *              SOFTCUDA_MEMORY      bytes of memory per device and process, suffix K, M, G or T
 *                                   (default 4G)
 *              SOFTCUDA_PINNED      bytes of host memory that a process may have pinned
 *                                   (default 1T)
 *              SOFTCUDA_BAR1        bytes of a device that HCAs can have mapped at a time
 *                                   (default 1T)
 *              SOFTCUDA_COMPUTE_MODE  default or exclusive
 *              SOFTCUDA_RDMA_ORDERING  owner: devices see an HCA's writes; flush: after
 *                                   cuFlushGPUDirectRDMAWrites; none: as flush, without one
 *                                   (default owner)
 *              SOFTCUDA_MEMOPS      0: streams have no memory operations (default 1)
 *              SOFTCUDA_CONNECTIONS  hardware queues that the streams of a context share, 0: each
 *                                   has one of its own (default 0)
 *              SOFTCUDA_LAUNCH_QUEUE  operations that a stream takes: who gives it more waits until
 *                                   there is room, 0: any number (default 0)
 *              SOFTCUDA_IPC         how memory may be shared with other processes: off (nor are
 *                                   there events for them), legacy
 *                                   (cuIpcGetMemHandle), all (and file descriptors of
 *                                   cuMemCreate's; default), fabric (and its fabric handles: there
 *                                   is an IMEX channel)
 *              SOFTCUDA_P2P         off: no device reaches another's memory but by copies in one
 *                                   process (default on)
 *              SOFTCUDA_LINK        what NVML tells of the link between devices: nvlink (18 of
 *                                   26.5 GB/s; default) or pcie (16 lanes of the 5th generation)
 *              SOFTCUDA_CPU_LINK    pcie or c2c (as a GB200's): dmabufs are C2C mappings then,
 *                                   unless CUDA is asked for one by PCIe (default pcie)
 *              SOFTCUDA_COPY_LATENCY_US  microseconds by which each copy and memset is delayed
 *                                   (default 0)
 *              SOFTCUDA_STATS       1: print the number of calls per function to stderr at exit
 *
 * All functions may be called from any thread at any time, also before cuInit.
 */
#ifndef SOFTCUDA_H
#define SOFTCUDA_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The alias in this process of [device_ptr, device_ptr + length). NULL unless that range lies
 * inside one live device allocation (managed and host memory have no alias: the CPU reaches them as
 * they are). The address stays mapped for the life of the process, whatever happens to the
 * allocation, except for memory opened with cuIpcOpenMemHandle, whose alias ends with
 * cuIpcCloseMemHandle.
 */
void* softcuda_host_alias(const void* device_ptr, size_t length);

/*
 * Maps all memory behind a dmabuf fd exported by cuMemGetHandleForAddressRange, in this process or
 * in another one of the same user that is still alive: what an HCA's registration does. As with a
 * GPU's dmabuf, mmap of the fd itself is refused. The length is the fd's size (lseek SEEK_END).
 * Until it is unmapped the memory stays taken, also when it is freed (unless it is another
 * process's).
 * Returns the address of the first byte, to be released with softcuda_unmap(), or NULL with errno
 * set: EBADF not open or not a softcuda dmabuf, ENXIO the memory is gone, ENOMEM the device's BAR1
 * is full, else what mmap(2) said.
 */
void* softcuda_dmabuf_map(int fd);

/* Whether it is a softcuda dmabuf that is mapped by C2C, not by PCIe, which not every HCA takes. */
int softcuda_dmabuf_is_c2c(int fd);

/*
 * The same by device address, as nvidia-peermem does it: softcuda_host_alias(), for as long as
 * which BAR1 is taken. NULL with errno set: EFAULT there is no alias, ENOMEM the device's BAR1 is
 * full.
 */
void* softcuda_peer_map(const void* device_ptr, size_t length);

/* Ends one mapping of the two kinds above: 0, or -1 where there is none at this address. */
int softcuda_unmap(void* address);

/*
 * Kernels. The emulated devices run no device code. A module or library is loaded from PTX, of
 * which the kernels' names and parameters are read; a launch runs the host function registered
 * under the kernel's name, in the order of its stream, on one thread, once for the whole grid.
 */

/* A launch: sizes of the grid in blocks and of a block in threads, bytes of shared memory, and the
 * number of the device. */
struct softcuda_launch {
    unsigned grid[3];
    unsigned block[3];
    unsigned shared_memory;
    int device;
};

/*
 * Does what all threads of a launch would do. parameters: the address of each parameter's value, as
 * in cuLaunchKernel; copies, which live until the function returns. Device pointers have to go
 * through softcuda_kernel_memory(). The function may run on any thread, and at the same time on
 * several for launches in several streams; it must not call CUDA, wait for another operation, or
 * throw.
 * Returns 0, or the CUresult with which the launch has failed, mostly 700 for memory that the
 * device cannot reach (CUDA_ERROR_ILLEGAL_ADDRESS). As with the real driver that error is then the
 * answer of all calls that use the context or wait for it, until it is destroyed or reset; unlike
 * there, what was issued before is still done.
 */
typedef int (*softcuda_kernel_function)(const struct softcuda_launch* launch,
                                        void* const* parameters);

/* Registers the function for all kernels of a name. 0, or -1 where the name has another function.
 * Launches of a name without one are CUDA_ERROR_NOT_SUPPORTED, and so is loading a module or
 * library all of whose kernels are without: programs that can do without kernels notice in time. */
int softcuda_kernel(const char* name, softcuda_kernel_function function);

/*
 * Memory as a kernel sees it: [address, address + length) is one allocation, its bytes are in this
 * process at `bytes`. Where view is not 0 (SOFTCUDA_RDMA_ORDERING other than owner) the device
 * reads each byte at that distance from there, and what it writes has to be written to both places.
 */
struct softcuda_range {
    uintptr_t address;
    size_t length;
    char* bytes;
    ptrdiff_t view;
};

/* The allocation, of device, managed or pinned memory, that the address lies in: 0, or -1 where the
 * launch's device cannot reach it. To be called by a kernel's function. */
int softcuda_kernel_memory(const struct softcuda_launch* launch, const void* address,
                           struct softcuda_range* range);

/* Driver API calls made in this process so far, of every function together. */
uint64_t softcuda_calls(void);

/* Calls of one function, by its name with or without the version suffix ("cuMemAlloc" counts
 * cuMemAlloc_v2 too). 0 for a name never called. */
uint64_t softcuda_call_count(const char* name);

/* Has a function called at the beginning of each driver API call, in the thread that makes it, with
 * the call's name; NULL: none. It may block, as a patch of the driver's functions does. */
void softcuda_watch_calls(void (*watcher)(const char* name));

/* Contexts of a device of the machine, by its number there, that this process has made so far; a
 * primary context counts each time it comes to life. */
uint64_t softcuda_contexts(int device);

/* Stream memory operations that the devices have done for this process so far, each of a batch. */
uint64_t softcuda_memops(void);

#ifdef __cplusplus
}
#endif

#endif
