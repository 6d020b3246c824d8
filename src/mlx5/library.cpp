// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The two functions of libmlx5 that are used.
#include "mlx5/library.hpp"

#include "verbs/error.hpp"

#include <atomic>
#include <string>

#include <dlfcn.h>

namespace gdr::mlx5 {
namespace {

using InitObject = int (*)(mlx5dv_obj*, uint64_t);

// libibverbs has opened the library where there is a device of its kind. The older version of this
// name returns another address of a CQ's register.
InitObject find_init_object()
{
    void* library = dlopen("libmlx5.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    return library == nullptr
               ? nullptr
               : reinterpret_cast<InitObject>(dlvsym(library, "mlx5dv_init_obj", "MLX5_1.2"));
}

// NULL: there is none. A process may open the library later than its first HCA.
InitObject init_object()
{
    static std::atomic<InitObject> found{nullptr};
    InitObject function = found.load();
    if (function == nullptr) {
        function = find_init_object();
        found.store(function);
    }
    return function;
}

const void* library_of(const void* function)
{
    Dl_info info;
    return dladdr(function, &info) != 0 ? info.dli_fbase : nullptr;
}

void init(mlx5dv_obj& object, uint64_t type, const char* what)
{
    if (const int error = init_object()(&object, type); error != 0) {
        throw verbs::Error(std::string("mlx5dv_init_obj of a ") + what, error);
    }
}

} // namespace

// The device itself cannot be asked: mlx5dv_is_supported() takes any for one of libibverbs' own.
bool is_provider_of(const ibv_context& context)
{
    const InitObject function = init_object();
    return function != nullptr &&
           library_of(reinterpret_cast<const void*>(function)) ==
               library_of(reinterpret_cast<const void*>(context.ops.poll_cq));
}

mlx5dv_qp describe(ibv_qp* qp)
{
    mlx5dv_qp described{};
    mlx5dv_obj object{};
    object.qp = {qp, &described};
    init(object, MLX5DV_OBJ_QP, "queue pair");
    return described;
}

mlx5dv_cq describe(ibv_cq* cq)
{
    mlx5dv_cq described{};
    mlx5dv_obj object{};
    object.cq = {cq, &described};
    init(object, MLX5DV_OBJ_CQ, "completion queue");
    return described;
}

mlx5dv_srq describe(ibv_srq* srq)
{
    mlx5dv_srq described{};
    mlx5dv_obj object{};
    object.srq = {srq, &described};
    init(object, MLX5DV_OBJ_SRQ, "shared receive queue");
    return described;
}

} // namespace gdr::mlx5
