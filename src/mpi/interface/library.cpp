// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Recognises the library by its soname and symbols.
#include "mpi/interface/library.hpp"

#include "log/log.hpp"

#include <string_view>

#include <dlfcn.h>

namespace gdr::mpi {

namespace {

const Abi* abi_of(void* handle, std::string_view path)
{
    if (path.find("libmpi_abi") != std::string_view::npos) {
        return &kStandardAbi;
    }
    if (dlsym(handle, "ompi_mpi_comm_world") != nullptr) {
        return &kOpenMpi;
    }
    const auto name = path.substr(path.rfind('/') + 1);
    if (name.starts_with("libmpi.so.12") || name.find("mpich") != std::string_view::npos ||
        dlsym(handle, "MPIR_F08_MPI_IN_PLACE") != nullptr) {
        return &kMpich;
    }
    return nullptr;
}

template <typename Function>
bool look_up(void* handle, const char* name, Function& function)
{
    function = reinterpret_cast<Function>(dlsym(handle, name));
    return function != nullptr;
}

const Library* open(gdr_mpi_function* function)
{
    Dl_info info;
    void* handle = nullptr;
    if (dladdr(reinterpret_cast<void*>(function), &info) != 0) {
        handle = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    }
    if (handle == nullptr) {
        return nullptr;
    }
    static Library library;
    library.abi = abi_of(handle, info.dli_fname);
    if (library.abi == nullptr) {
        gdr_log(warn,
                "MPI calls on GPU memory are not staged: the ABI of %s is neither Open MPI's nor "
                "MPICH's nor the standard's. Give MPI host memory",
                info.dli_fname);
        return nullptr;
    }
#define GDR_MPI_LOOK_UP(name, parameters)                                                          \
    if (!look_up(handle, "PMPI_" #name, library.name)) {                                           \
        gdr_log(warn,                                                                              \
                "MPI calls on GPU memory are not staged: %s has no PMPI_" #name                    \
                ". Give MPI host memory",                                                          \
                info.dli_fname);                                                                   \
        return nullptr;                                                                            \
    }
    GDR_MPI_FUNCTIONS(GDR_MPI_LOOK_UP)
#undef GDR_MPI_LOOK_UP
    if (!look_up(handle, "PMPI_Type_size_c", library.Type_size_c)) {
        look_up(handle, "PMPI_Type_size_x", library.Type_size_c);
    }
    look_up(handle, "PMPI_Type_get_envelope_c", library.Type_get_envelope_c);
    look_up(handle, "PMPI_Type_get_contents_c", library.Type_get_contents_c);
    look_up(handle, "PMPI_File_call_errhandler", library.File_call_errhandler);
    look_up(handle, "PMPI_Info_get_string", library.Info_get_string);
    look_up(handle, "PMPI_Info_get", library.Info_get);
    look_up(handle, "PMPIX_GPU_query_support", library.GPU_query_support);
    look_up(handle, "mca_base_var_find", library.mca_base_var_find);
    look_up(handle, "mca_base_var_get_value", library.mca_base_var_get_value);
    // A program may have a copy of an object (by a relocation), which the library uses as well
    // then.
    const auto object_or = [handle](Word value, const char* name) {
        if (value != 0) {
            return value;
        }
        void* const object = dlsym(RTLD_DEFAULT, name);
        return reinterpret_cast<Word>(object != nullptr ? object : dlsym(handle, name));
    };
    library.request_null = object_or(library.abi->request_null, "ompi_request_null");
    library.datatype_null = object_or(library.abi->datatype_null, "ompi_mpi_datatype_null");
    library.info_null = object_or(library.abi->info_null, "ompi_mpi_info_null");
    library.pml = dlsym(handle, "mca_pml_base_selected_component");
    library.byte = object_or(library.abi->byte, "ompi_mpi_byte");
    library.integer = object_or(library.abi->integer, "ompi_mpi_int");
    library.comm_world = object_or(library.abi->comm_world, "ompi_mpi_comm_world");
    library.comm_self = object_or(library.abi->comm_self, "ompi_mpi_comm_self");
    library.comm_null = object_or(library.abi->comm_null, "ompi_mpi_comm_null");
    library.errors_return = object_or(library.abi->errors_return, "ompi_mpi_errors_return");
    library.win_null = object_or(library.abi->win_null, "ompi_mpi_win_null");
    constexpr std::array kOperations = {
        "ompi_mpi_op_sum",  "ompi_mpi_op_prod", "ompi_mpi_op_min",    "ompi_mpi_op_max",
        "ompi_mpi_op_land", "ompi_mpi_op_lor",  "ompi_mpi_op_lxor",   "ompi_mpi_op_band",
        "ompi_mpi_op_bor",  "ompi_mpi_op_bxor", "ompi_mpi_op_minloc", "ompi_mpi_op_maxloc"};
    for (size_t i = 0; i < kOperations.size(); ++i) {
        library.operations[i] = object_or(library.abi->operations[i], kOperations[i]);
    }
    return &library;
}

} // namespace

const Library* library_of(gdr_mpi_function* function)
{
    static const Library* const library = open(function);
    return library;
}

} // namespace gdr::mpi
