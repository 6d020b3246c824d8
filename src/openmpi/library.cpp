// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Recognises Open MPI by the symbols of libopen-pal, whatever its path, name and scope.
#include "openmpi/library.hpp"

#include <memory>
#include <string_view>

#include <dlfcn.h>
#include <link.h>

namespace gdr::openmpi {

namespace {

struct Close {
    void operator()(void* handle) const { dlclose(handle); }
};
using Handle = std::unique_ptr<void, Close>;

Handle open_object_of(const void* code)
{
    Dl_info info;
    return Handle(dladdr(code, &info) != 0 ? dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD)
                                           : nullptr);
}

struct Variable {
    const void* address = nullptr;
    size_t size = 0; // from its symbol
};

Variable variable(const Handle& library, const char* name)
{
    const void* address = library ? dlsym(library.get(), name) : nullptr;
    Dl_info info;
    void* entry = nullptr;
    if (address == nullptr || dladdr1(address, &info, &entry, RTLD_DL_SYMENT) == 0 ||
        entry == nullptr) {
        return {};
    }
    return {address, static_cast<const ElfW(Sym)*>(entry)->st_size};
}

std::string text(int major, int minor, int release)
{
    return std::to_string(major) + '.' + std::to_string(minor) + '.' + std::to_string(release);
}

bool is_of(const McaComponent& component, int major, int minor)
{
    return component.mca_project_major_version == major &&
           component.mca_project_minor_version == minor;
}

// Looks for other accelerator components that have been opened as files.
int finds_other_component(dl_phdr_info* object, size_t, void* found)
{
    constexpr std::string_view kPrefix = "mca_accelerator_";
    std::string_view name = object->dlpi_name;
    name.remove_prefix(name.rfind('/') + 1);
    *static_cast<bool*>(found) = name.starts_with(kPrefix) && name != "mca_accelerator_gdr.so" &&
                                 name != "mca_accelerator_null.so";
    return static_cast<int>(*static_cast<bool*>(found));
}

} // namespace

std::string refusal(const void* code)
{
    const Handle library = open_object_of(code);
    const Variable null = variable(library, "mca_accelerator_null_component");
    const Variable module = variable(library, "opal_accelerator");
    const Variable selected = variable(library, "opal_accelerator_base_selected_component");
    const Variable stream = variable(library, "opal_accelerator_stream_t_class");
    const Variable event = variable(library, "opal_accelerator_event_t_class");
    if (null.size < sizeof(Component) || stream.size != sizeof(Class) ||
        event.size != sizeof(Class)) {
        return "does not show which Open MPI it is";
    }
    const McaComponent& component = static_cast<const Component*>(null.address)->base_version;
    const bool is_5 = is_of(component, kMajor, kMinor);
    if (!is_5 && !is_of(component, kMajor6, kMinor6)) {
        return "is of Open MPI " +
               text(component.mca_project_major_version, component.mca_project_minor_version,
                    component.mca_project_release_version) +
               ", and what is known is 5.0 and 6.0";
    }
    if (component.mca_major_version != 2 || component.mca_minor_version != 1 ||
        component.mca_type_major_version != 1 || component.mca_type_minor_version != 0) {
        return "has another component interface (MCA " +
               text(component.mca_major_version, component.mca_minor_version,
                    component.mca_release_version) +
               ", accelerator " +
               text(component.mca_type_major_version, component.mca_type_minor_version,
                    component.mca_type_release_version) +
               ')';
    }
    if (module.size != (is_5 ? sizeof(Module) : sizeof(Module6)) ||
        selected.size != sizeof(Component) ||
        static_cast<const Class*>(stream.address)->cls_sizeof != sizeof(Stream) ||
        static_cast<const Class*>(event.address)->cls_sizeof != sizeof(Event)) {
        return "was built with another layout than what is known of Open MPI 5.0 and 6.0 "
               "(--enable-debug?)";
    }
    if (!is_5 && variable(library, "opal_accelerator_null_module").size != sizeof(Module6)) {
        return "does not show its null module";
    }
    return {};
}

const Module6* null_module_6(const void* code)
{
    const Handle library = open_object_of(code);
    const Variable null = variable(library, "mca_accelerator_null_component");
    return is_of(static_cast<const Component*>(null.address)->base_version, kMajor6, kMinor6)
               ? static_cast<const Module6*>(
                     variable(library, "opal_accelerator_null_module").address)
               : nullptr;
}

bool has_own_accelerator(const void* code)
{
    const Handle library = open_object_of(code);
    for (const char* linked : {"mca_accelerator_cuda_component", "mca_accelerator_rocm_component",
                               "mca_accelerator_ze_component"}) {
        if (variable(library, linked).address != nullptr) {
            return true;
        }
    }
    bool found = false;
    dl_iterate_phdr(finds_other_component, &found);
    return found;
}

} // namespace gdr::openmpi
