// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// UCT's calls, forwarded to the component, its memory domains and its transports.
#include "abi/border.hpp"

#include "abi/completion.hpp"
#include "abi/left_out.hpp"
#include "abi/series.hpp"
#include "abi/settings.hpp"
#include "log/log.hpp"

#include <atomic>
#include <cassert>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

namespace gdr::abi {
namespace {

std::atomic<void (*)()> use{nullptr};
std::atomic<bool> left_out{false};

MemoryDomain& domain_of(uct_md_h md)
{
    return *memory_domain(md);
}

// Every UCP context tries to open such a domain again; the reason is logged once.
void report_md_failure(const std::string& name, const char* reason)
{
    static std::mutex mutex;
    static std::set<std::string> reported;
    const std::lock_guard lock(mutex);
    const log::Level level = !reported.insert(name).second ? log::Level::debug
                             : user_names_gdr()            ? log::Level::warn
                                                           : log::Level::diag;
    log::message(level, __FILE__, __LINE__, "%s is not available: %s", name.c_str(), reason);
}

} // namespace

void on_use(void (*function)())
{
    use = function;
}

bool left_out_of_a_context()
{
    return left_out;
}

MemoryDomain* memory_domain(uct_md_h md)
{
    return reinterpret_cast<Md*>(md)->domain.get();
}

ucs_status_t query_md_resources(const Component& component, uct_md_resource_desc_t** resources,
                                unsigned* count)
{
    return guarded("query_md_resources", [&] {
        std::vector<std::string> names{component.name}; // of the domain that replaces it
        if (user_wants_gdr()) {
            if (void (*function)() = use) {
                function();
            }
            names = component.query_md_resources();
        } else {
            left_out = true;
        }
        std::unique_ptr<uct_md_resource_desc_t, decltype(&std::free)> list(
            allocate_list<uct_md_resource_desc_t>(names.size()), std::free);
        for (size_t i = 0; i < names.size(); ++i) {
            copy_name(list.get()[i].md_name, names[i]);
        }
        *count = static_cast<unsigned>(names.size());
        *resources = list.release();
        return UCS_OK;
    });
}

ucs_status_t query_devices(const Transport& transport, uct_md_h md, TlDevice** devices,
                           unsigned* count)
{
    return guarded("query_devices", [&] {
        const std::vector<Device> found =
            is_left_out(md) ? left_out_devices() : transport.query_devices(domain_of(md));
        std::unique_ptr<TlDevice, decltype(&std::free)> list(allocate_list<TlDevice>(found.size()),
                                                             std::free);
        for (size_t i = 0; i < found.size(); ++i) {
            TlDevice& device = list.get()[i];
            copy_name(device.name, found[i].name);
            device.type = found[i].type;
            device.sys_device = found[i].sys_device;
        }
        *count = static_cast<unsigned>(found.size());
        *devices = list.release();
        return UCS_OK;
    });
}

ucs_status_t open_md(const Component& component, BaseMd base, const char* name,
                     const uct_md_config_t* config, uct_md_h* md)
{
    return guarded("md_open", [&] {
        try {
            auto domain = user_wants_gdr()
                              ? component.open_md(name, reinterpret_cast<const MdConfig*>(config))
                              : std::make_unique<LeftOut>();
            *md = reinterpret_cast<uct_md_h>(new Md{base, std::move(domain)});
            return UCS_OK;
        } catch (const std::exception& error) {
            report_md_failure(name, error.what());
            return UCS_ERR_NO_DEVICE;
        }
    });
}

void close_md(uct_md_h md)
{
    delete reinterpret_cast<Md*>(md);
}

ucs_status_t query_md(uct_md_h md, MdAttributes* attributes)
{
    return guarded("md_query", [&] {
        *attributes = domain_of(md).attributes();
        return UCS_OK;
    });
}

ucs_status_t reg_memory(uct_md_h md, void* address, size_t length, Registration asked,
                        uct_mem_h* memh)
{
    return guarded("mem_reg", [&] {
        const ucs_status_t status = domain_of(md).reg(address, length, asked, memh);
        assert(status != UCS_OK || *memh != nullptr);
        return status;
    });
}

ucs_status_t dereg_memory(uct_md_h md, uct_mem_h memh, uct_completion_t* invalidated)
{
    return guarded("mem_dereg", [&] {
        if (invalidated == nullptr || series().invalidates_later) {
            return domain_of(md).dereg(memh, invalidated);
        }
        // UCP keeps its completion on the stack, where it exists only until this returns.
        auto lasting = std::make_unique<uct_completion_t>(
            uct_completion_t{[](uct_completion_t* self) { delete self; }, 1, UCS_OK});
        const ucs_status_t status = domain_of(md).dereg(memh, lasting.get());
        if (status == UCS_OK) {
            (void)lasting.release();
            complete(invalidated, UCS_OK);
        }
        return status;
    });
}

ucs_status_t alloc_memory(uct_md_h md, size_t* length, void** address, ucs_memory_type_t type,
                          uct_mem_h* memh)
{
    return guarded("mem_alloc", [&] { return domain_of(md).alloc(length, address, type, memh); });
}

ucs_status_t free_memory(uct_md_h md, uct_mem_h memh)
{
    if (memh == UCT_MEM_HANDLE_NULL) {
        return UCS_ERR_INVALID_PARAM;
    }
    return guarded("mem_free", [&] { return domain_of(md).free(memh); });
}

ucs_status_t query_memory(uct_md_h md, const void* address, size_t length, MemoryInfo* info)
{
    return guarded("mem_query", [&] {
        const std::optional<MemoryInfo> found = domain_of(md).query(address, length);
        if (!found) {
            return UCS_ERR_INVALID_ADDR;
        }
        *info = *found;
        return UCS_OK;
    });
}

ucs_status_t export_memory(uct_md_h md, const void* address, size_t length, Dmabuf* dmabuf)
{
    return guarded("mem_query", [&] {
        *dmabuf = domain_of(md).export_dmabuf(address, length);
        return UCS_OK;
    });
}

ucs_status_t pack_mkey(uct_md_h md, uct_mem_h memh, const void* address, size_t length,
                       void* buffer)
{
    if (memh == UCT_MEM_HANDLE_NULL) {
        return UCS_ERR_INVALID_PARAM;
    }
    return guarded("mkey_pack",
                   [&] { return domain_of(md).pack_rkey(memh, address, length, buffer); });
}

ucs_status_t unpack_mkey(const Component& component, const void* buffer, uct_rkey_t* rkey,
                         void** handle)
{
    return guarded("rkey_unpack", [&] { return component.unpack_rkey(buffer, rkey, handle); });
}

ucs_status_t release_mkey(const Component& component, uct_rkey_t rkey, void* handle)
{
    return guarded("rkey_release", [&] {
        component.release_rkey(rkey, handle);
        return UCS_OK;
    });
}

} // namespace gdr::abi
