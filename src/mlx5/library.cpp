// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Finds the function of libmlx5 that is used, and calls it.
#include "mlx5/library.hpp"

#include "verbs/error.hpp"

#include <atomic>
#include <string>
#include <type_traits>

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

// member: of mlx5dv_obj, for that type of object.
template <class Member, class Object>
auto describe(Member mlx5dv_obj::*member, uint64_t type, Object* object, const char* what)
{
    std::remove_pointer_t<decltype(Member::out)> described{};
    mlx5dv_obj question{};
    (question.*member).in = object;
    (question.*member).out = &described;
    if (const int error = init_object()(&question, type); error != 0) {
        throw verbs::Error(std::string("mlx5dv_init_obj of a ") + what, error);
    }
    return described;
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
    return describe(&mlx5dv_obj::qp, MLX5DV_OBJ_QP, qp, "queue pair");
}

mlx5dv_cq describe(ibv_cq* cq)
{
    return describe(&mlx5dv_obj::cq, MLX5DV_OBJ_CQ, cq, "completion queue");
}

mlx5dv_srq describe(ibv_srq* srq)
{
    return describe(&mlx5dv_obj::srq, MLX5DV_OBJ_SRQ, srq, "shared receive queue");
}

} // namespace gdr::mlx5
