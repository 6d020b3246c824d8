// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// sync_nvrtc FILE DIRECTORY: compiles a file of CUDA's C++ by NVRTC, with headers of the directory.
// Status 77 where there is no NVRTC.
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

#include <dlfcn.h>

int main(int argc, char** argv)
{
    void* library = nullptr;
    for (const char* name :
         {"libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2"}) {
        library = library != nullptr ? library : dlopen(name, RTLD_NOW);
    }
    if (library == nullptr || argc != 3) {
        std::fprintf(stderr, "no NVRTC: %s\n", dlerror());
        return 77;
    }
    using Program = void*;
    const auto create =
        reinterpret_cast<int (*)(Program*, const char*, const char*, int, const char* const*,
                                 const char* const*)>(dlsym(library, "nvrtcCreateProgram"));
    const auto compile = reinterpret_cast<int (*)(Program, int, const char* const*)>(
        dlsym(library, "nvrtcCompileProgram"));
    const auto log_size =
        reinterpret_cast<int (*)(Program, size_t*)>(dlsym(library, "nvrtcGetProgramLogSize"));
    const auto log =
        reinterpret_cast<int (*)(Program, char*)>(dlsym(library, "nvrtcGetProgramLog"));
    std::ifstream file(argv[1]);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    const std::string include = std::string("--include-path=") + argv[2];
    const char* const options[] = {include.c_str(), "--std=c++17"};
    Program program = nullptr;
    if (create(&program, text.c_str(), argv[1], 0, nullptr, nullptr) != 0) {
        return 1;
    }
    const int result = compile(program, 2, options);
    size_t size = 0;
    log_size(program, &size);
    std::string messages(size, '\0');
    log(program, messages.data());
    std::fprintf(stderr, "NVRTC: %d\n%s\n", result, messages.c_str());
    return result == 0 ? 0 : 1;
}
