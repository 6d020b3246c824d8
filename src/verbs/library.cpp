// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Every libibverbs function that this project uses. Functions that post and poll are inline in the
// libibverbs header and call through the device's own table.
#include "verbs/library.hpp"

#include "stubs/stub.hpp"

#include <cerrno>
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <link.h>

// Each with the symbol version that the header declares.
#define GDR_FUNCTIONS(FUNCTION)                                                                    \
    FUNCTION(ibv_ack_async_event, "IBVERBS_1.1")                                                   \
    FUNCTION(ibv_ack_cq_events, "IBVERBS_1.1")                                                     \
    FUNCTION(ibv_alloc_pd, "IBVERBS_1.1")                                                          \
    FUNCTION(ibv_close_device, "IBVERBS_1.1")                                                      \
    FUNCTION(ibv_create_ah, "IBVERBS_1.1")                                                         \
    FUNCTION(ibv_create_comp_channel, "IBVERBS_1.0")                                               \
    FUNCTION(ibv_create_cq, "IBVERBS_1.1")                                                         \
    FUNCTION(ibv_create_qp, "IBVERBS_1.1")                                                         \
    FUNCTION(ibv_create_srq, "IBVERBS_1.1")                                                        \
    FUNCTION(ibv_dealloc_pd, "IBVERBS_1.1")                                                        \
    FUNCTION(ibv_dereg_mr, "IBVERBS_1.1")                                                          \
    FUNCTION(ibv_destroy_ah, "IBVERBS_1.1")                                                        \
    FUNCTION(ibv_destroy_comp_channel, "IBVERBS_1.0")                                              \
    FUNCTION(ibv_destroy_cq, "IBVERBS_1.1")                                                        \
    FUNCTION(ibv_destroy_qp, "IBVERBS_1.1")                                                        \
    FUNCTION(ibv_destroy_srq, "IBVERBS_1.1")                                                       \
    FUNCTION(ibv_event_type_str, "IBVERBS_1.1")                                                    \
    FUNCTION(ibv_fork_init, "IBVERBS_1.1")                                                         \
    FUNCTION(ibv_free_device_list, "IBVERBS_1.1")                                                  \
    FUNCTION(ibv_get_async_event, "IBVERBS_1.1")                                                   \
    FUNCTION(ibv_get_cq_event, "IBVERBS_1.1")                                                      \
    FUNCTION(ibv_get_device_list, "IBVERBS_1.1")                                                   \
    FUNCTION(ibv_get_device_name, "IBVERBS_1.1")                                                   \
    FUNCTION(ibv_modify_qp, "IBVERBS_1.1")                                                         \
    FUNCTION(ibv_open_device, "IBVERBS_1.1")                                                       \
    FUNCTION(ibv_port_state_str, "IBVERBS_1.1")                                                    \
    FUNCTION(ibv_qp_to_qp_ex, "IBVERBS_1.6")                                                       \
    FUNCTION(ibv_query_device, "IBVERBS_1.1")                                                      \
    FUNCTION(ibv_query_gid, "IBVERBS_1.1")                                                         \
    FUNCTION(ibv_query_pkey, "IBVERBS_1.1")                                                        \
    FUNCTION(ibv_query_port, "IBVERBS_1.1")                                                        \
    FUNCTION(ibv_reg_mr, "IBVERBS_1.1")                                                            \
    FUNCTION(ibv_reg_mr_iova2, "IBVERBS_1.8")                                                      \
    FUNCTION(ibv_resize_cq, "IBVERBS_1.1")                                                         \
    FUNCTION(ibv_wc_status_str, "IBVERBS_1.1")

// A libibverbs may lack these: they came with rdma-core 32, 34 and 35.
#define GDR_LATE_FUNCTIONS(FUNCTION)                                                               \
    FUNCTION(_ibv_query_gid_ex, "IBVERBS_1.11", no_gid_type)                                       \
    FUNCTION(_ibv_query_gid_table, "IBVERBS_1.11", no_gid_table)                                   \
    FUNCTION(ibv_reg_dmabuf_mr, "IBVERBS_1.12", no_dmabuf)                                         \
    FUNCTION(ibv_is_fork_initialized, "IBVERBS_1.13", no_fork_status)

#define GDR_DEFINE(name, ...) GDR_STUB(name)
GDR_FUNCTIONS(GDR_DEFINE)
GDR_LATE_FUNCTIONS(GDR_DEFINE)

namespace gdr::verbs {
namespace {

int no_gid_type(ibv_context*, uint32_t, uint32_t, ibv_gid_entry*, uint32_t, size_t)
{
    return EOPNOTSUPP;
}

ssize_t no_gid_table(ibv_context*, ibv_gid_entry*, size_t, uint32_t, size_t)
{
    return -EOPNOTSUPP;
}

ibv_mr* no_dmabuf(ibv_pd*, uint64_t, size_t, uint64_t, int, int)
{
    errno = EOPNOTSUPP;
    return nullptr;
}

ibv_fork_status no_fork_status()
{
    return IBV_FORK_DISABLED;
}

struct Function {
    const char* name;
    const char* version;
    void** pointer;
    void* instead; // NULL: the function is required
};

#define GDR_ENTRY(name, version) {#name, version, &gdr_pointer_##name, nullptr},
#define GDR_LATE_ENTRY(name, version, instead)                                                     \
    {#name, version, &gdr_pointer_##name, reinterpret_cast<void*>(&instead)},
const Function kFunctions[] = {GDR_FUNCTIONS(GDR_ENTRY) GDR_LATE_FUNCTIONS(GDR_LATE_ENTRY)};

bool is_in(void* library, void* address)
{
    Dl_info info;
    void* map;
    return library != nullptr && dladdr1(address, &info, &map, RTLD_DL_LINKMAP) != 0 &&
           map == library;
}

// Searches like the dynamic linker: a preloaded library, such as an emulated HCA, comes before
// libibverbs.
void* find(void* library, const Function& function)
{
    void* first = dlsym(RTLD_DEFAULT, function.name);
    if (first != nullptr && !is_in(library, first)) {
        return first;
    }
    return library != nullptr ? dlvsym(library, function.name, function.version) : nullptr;
}

std::string bind()
{
    void* library = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
    const std::string obstacle = library == nullptr ? dlerror() : "";
    for (const Function& function : kFunctions) {
        void* found = find(library, function);
        *function.pointer = found != nullptr ? found : function.instead;
        if (*function.pointer == nullptr) {
            return library == nullptr
                       ? obstacle + " (install libibverbs1 (Debian, Ubuntu) or libibverbs (Fedora, "
                                    "RHEL, SUSE))"
                       : std::string("libibverbs.so.1 has no ") + function.name + " of version " +
                             function.version + " (install that of rdma-core 28 or later)";
        }
    }
    return {};
}

} // namespace

const std::string& open_library()
{
    static const std::string obstacle = bind();
    return obstacle;
}

} // namespace gdr::verbs
