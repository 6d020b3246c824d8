// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// nvidia-peermem for softcuda's GPUs and a kernel verbs device: a library to be preloaded, with
// which ibv_reg_mr takes addresses of emulated device memory. Their readable alias is registered,
// under the device's addresses.
#include <cstdint>

#include <dlfcn.h>
#include <infiniband/verbs.h>
#undef ibv_reg_mr

namespace {

// libibverbs's own. It is not behind this library in the global scope: the module opens it for
// itself.
template <class Function>
Function next(const char* name)
{
    void* verbs = dlopen("libibverbs.so.1", RTLD_LAZY);
    return reinterpret_cast<Function>(verbs == nullptr ? nullptr : dlsym(verbs, name));
}

// The alias of emulated device memory; nullptr for all other addresses, and before CUDA is loaded.
void* alias_of(void* address, size_t length)
{
    void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    if (driver == nullptr) {
        return nullptr;
    }
    auto* host_alias =
        reinterpret_cast<void* (*)(const void*, size_t)>(dlsym(driver, "softcuda_host_alias"));
    void* alias = host_alias == nullptr ? nullptr : host_alias(address, length);
    dlclose(driver);
    return alias;
}

} // namespace

extern "C" {

[[gnu::visibility("default")]] ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* address, size_t length,
                                                        uint64_t iova, unsigned access)
{
    static auto* reg = next<decltype(&ibv_reg_mr_iova2)>("ibv_reg_mr_iova2");
    void* alias = alias_of(address, length);
    return reg(pd, alias == nullptr ? address : alias, length, iova, access);
}

[[gnu::visibility("default")]] ibv_mr* ibv_reg_mr(ibv_pd* pd, void* address, size_t length,
                                                  int access)
{
    return ibv_reg_mr_iova2(pd, address, length, reinterpret_cast<uintptr_t>(address),
                            static_cast<unsigned>(access));
}

} // extern "C"
