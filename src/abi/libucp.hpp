// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The libucp of a UCX, which alone reports the version: the one in the process or, if there is none
// yet, the one installed beside libuct, which is closed again.
#pragma once

#include <string>

namespace gdr::abi {

// The file of the object that holds the address. Throws std::runtime_error.
std::string library_of(const void* address);

class Libucp {
  public:
    // From a handle of libuct and its path. Throws std::runtime_error if there is none.
    Libucp(void* libuct, const std::string& uct_path);
    Libucp(const Libucp&) = delete;
    Libucp& operator=(const Libucp&) = delete;
    ~Libucp();

    std::string path() const { return library_of(reinterpret_cast<const void*>(get_version)); }

    void (*get_version)(unsigned* major, unsigned* minor, unsigned* release) = nullptr;

  private:
    bool accept(const char* path, int flags, void* libuct);

    void* handle_ = nullptr;
};

} // namespace gdr::abi
