// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "mpi/interface/transport.hpp"

#include "log/log.hpp"

#include <array>
#include <cstdlib>
#include <string>
#include <string_view>

#include <dlfcn.h>

namespace gdr::mpi {

namespace {

// The beginning of each component of Open MPI; MCA has not changed it since Open MPI 1.7.
struct McaComponent {
    int mca_version[3];
    char project[16];
    int project_version[3];
    char type[32];
    int type_version[3];
    char name[64];
};

constexpr const char* kPmlRemedy = "run with OMPI_MCA_pml=ucx, as ucx-gdr run does";
constexpr const char* kOtherMpi = "use an Open MPI or MPICH over UCX";

// Why the library does not hand messages to UCX, and what to do; both empty if it does.
struct Verdict {
    std::string why, remedy;
    bool within_host = false; // only within a host
};

Verdict of_open_mpi(const McaComponent& pml)
{
    if (std::string_view(pml.type) != "pml") {
        return {"which of its layers carries messages is not known", kPmlRemedy};
    }
    if (std::string_view(pml.name) != "ucx") {
        return {"its layer \"" + std::string(pml.name) + "\" carries them, not UCX's", kPmlRemedy};
    }
    return {};
}

// As MPICH reads it.
bool is_set(const char* variable)
{
    const char* const value = std::getenv(variable);
    if (value == nullptr) {
        return false;
    }
    for (const char* yes : {"YES", "yes", "TRUE", "true", "ON", "on", "1"}) {
        if (std::string_view(value) == yes) {
            return true;
        }
    }
    return false;
}

Verdict of_mpich(std::string_view device)
{
    if (device == "ch4:ucx") { // it has no other way
        return {};
    }
    const char* const module = std::getenv("MPIR_CVAR_CH4_NETMOD");
    if (!device.starts_with("ch4:ucx") ||
        (module != nullptr && *module != 0 && std::string_view(module) != "ucx")) {
        return {"its device is " + std::string(device), kOtherMpi};
    }
    if (!is_set("MPIR_CVAR_NOLOCAL")) {
        return {"within a host it copies with the CPU", "run with MPIR_CVAR_NOLOCAL=1", true};
    }
    return {};
}

// The rest of the line after a word in the text of MPI_Get_library_version.
std::string_view line_of(std::string_view text, std::string_view word)
{
    const size_t at = text.find(word);
    if (at == text.npos) {
        return {};
    }
    text.remove_prefix(at + word.size());
    const size_t first = text.find_first_not_of(" \t");
    const size_t end = text.find('\n');
    return first < end ? text.substr(first, end - first) : std::string_view();
}

Verdict judge(const Library& library)
{
    if (library.pml != nullptr) {
        return of_open_mpi(*static_cast<const McaComponent*>(library.pml));
    }
    std::array<char, 8192> text{}; // MPI_MAX_LIBRARY_VERSION_STRING
    int length = 0;
    library.Get_library_version(text.data(), &length);
    const auto device = line_of(text.data(), "MPICH Device:");
    if (!device.empty()) {
        return of_mpich(device);
    }
    return {"what carries them is not known", kOtherMpi};
}

const Verdict& verdict(const Library& library)
{
    static const Verdict kept = judge(library);
    return kept;
}

bool decide(const Library& library)
{
    const Verdict& no = verdict(library);
    if (no.why.empty()) {
        return true;
    }
    gdr_log(warn,
            "MPI messages on GPUs are staged, which is slower: this MPI does not hand all of them "
            "to UCX as they are: %s (for them to go directly, %s)",
            no.why.c_str(), no.remedy.c_str());
    return false;
}

} // namespace

bool hands_to_ucx(const Library& library)
{
    static const bool answer = decide(library);
    return answer;
}

bool copies_within_host(const Library& library)
{
    return verdict(library).within_host;
}

} // namespace gdr::mpi
