// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// As much of a libopen-pal as src/openmpi looks at, of a version that the compiler is told:
// FAKE_MAJOR and FAKE_MINOR of Open MPI, FAKE_FUNCTIONS more in its module (or, negative, fewer),
// FAKE_OBJECT_BYTES more in its objects, and with FAKE_CUDA a component of its own.
#include "openmpi/series_6_0.hpp"

#include <dlfcn.h>

using namespace gdr::openmpi;

namespace {

constexpr McaComponent component(const char (&name)[5])
{
    McaComponent made = {};
    made.mca_major_version = 2;
    made.mca_minor_version = 1;
    made.mca_project_major_version = FAKE_MAJOR;
    made.mca_project_minor_version = FAKE_MINOR;
    made.mca_type_major_version = 1;
    for (int i = 0; i < 5; ++i) {
        made.mca_component_name[i] = name[i];
    }
    return made;
}

} // namespace

extern "C" {
Component mca_accelerator_null_component = {component("null"), {}, nullptr, nullptr};
#ifdef FAKE_CUDA
Component mca_accelerator_cuda_component = {component("cuda"), {}, nullptr, nullptr};
#endif
Component opal_accelerator_base_selected_component;
#if FAKE_MAJOR == 6
using FakeModule = Module6;
void fake_null() {}
Module6 opal_accelerator_null_module = [] {
    Module6 made = {};
    made.create_stream = made.get_memkind = fake_null;
    return made;
}();
#else
using FakeModule = Module;
#endif
char opal_accelerator[sizeof(FakeModule) + FAKE_FUNCTIONS * sizeof(void*)];
Class opal_accelerator_stream_t_class = {
    nullptr, nullptr, nullptr, nullptr, 0, 0, nullptr, nullptr, sizeof(Stream) + FAKE_OBJECT_BYTES};
Class opal_accelerator_event_t_class = {
    nullptr, nullptr, nullptr, nullptr, 0, 0, nullptr, nullptr, sizeof(Event) + FAKE_OBJECT_BYTES};

// The module of the component in that file, as Open MPI gets it. nullptr: it is left out, or cannot
// be opened.
Module* fake_select(const char* path)
{
    void* const file = dlopen(path, RTLD_LAZY | RTLD_GLOBAL);
    auto* const opened =
        file == nullptr ? nullptr
                        : static_cast<Component*>(dlsym(file, "mca_accelerator_gdr_component"));
    void* const module = opened == nullptr ? nullptr : opened->accelerator_init();
    opal_accelerator_base_selected_component =
        module == nullptr ? mca_accelerator_null_component : *opened;
    return static_cast<Module*>(module);
}
}
