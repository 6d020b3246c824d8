// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Reading the parts of an ELF file that Elf is made of. Files are large, and some are broken: each
// part is read where the file says it is, if it is there.
#include "doctor/reader/elf.hpp"

#include "doctor/reader/text.hpp"

#include <algorithm>
#include <cstring>
#include <elf.h>
#include <fstream>

#include <sys/xattr.h>

namespace gdr::doctor {
namespace {

constexpr size_t kMostEntries = 4096;
constexpr size_t kMostNames = 64 << 20;

class File {
  public:
    explicit File(const std::filesystem::path& path) : stream_(path, std::ios::binary) {}

    template <class Entry>
    bool read(uint64_t offset, Entry* entry)
    {
        stream_.clear();
        stream_.seekg(static_cast<std::streamoff>(offset));
        stream_.read(reinterpret_cast<char*>(entry), sizeof(*entry));
        return stream_.good();
    }

    template <class Entry>
    std::vector<Entry> table(uint64_t offset, uint64_t count)
    {
        std::vector<Entry> entries;
        Entry entry;
        for (uint64_t i = 0; i < std::min<uint64_t>(count, kMostEntries) &&
                             read(offset + i * sizeof(entry), &entry);
             ++i) {
            entries.push_back(entry);
        }
        return entries;
    }

    std::string text(uint64_t offset, uint64_t size)
    {
        std::string text(std::min<uint64_t>(size, kMostNames), '\0');
        stream_.clear();
        stream_.seekg(static_cast<std::streamoff>(offset));
        stream_.read(text.data(), static_cast<std::streamsize>(text.size()));
        text.resize(static_cast<size_t>(std::max<std::streamsize>(0, stream_.gcount())));
        return text;
    }

  private:
    std::ifstream stream_;
};

std::string name_at(const std::string& names, uint64_t offset)
{
    return offset < names.size() ? names.substr(offset, names.find('\0', offset) - offset) : "";
}

// Where in the file an address is.
uint64_t file_offset(const std::vector<Elf64_Phdr>& segments, uint64_t address)
{
    for (const Elf64_Phdr& segment : segments) {
        if (segment.p_type == PT_LOAD && address >= segment.p_vaddr &&
            address - segment.p_vaddr < segment.p_filesz) {
            return address - segment.p_vaddr + segment.p_offset;
        }
    }
    return address;
}

void read_dynamic(File& file, const std::vector<Elf64_Phdr>& segments, const Elf64_Phdr& dynamic,
                  Elf* elf)
{
    const auto entries =
        file.table<Elf64_Dyn>(dynamic.p_offset, dynamic.p_filesz / sizeof(Elf64_Dyn));
    uint64_t names_at = 0;
    uint64_t names_size = 0;
    for (const Elf64_Dyn& entry : entries) {
        if (entry.d_tag == DT_STRTAB) {
            names_at = file_offset(segments, entry.d_un.d_ptr);
        } else if (entry.d_tag == DT_STRSZ) {
            names_size = entry.d_un.d_val;
        }
    }
    const std::string names = file.text(names_at, names_size);
    for (const Elf64_Dyn& entry : entries) {
        if (entry.d_tag == DT_NULL) {
            break;
        }
        const std::string name = name_at(names, entry.d_un.d_val);
        if (entry.d_tag == DT_NEEDED) {
            elf->needed.push_back(name);
        } else if (entry.d_tag == DT_RPATH) {
            elf->rpath = split(name, ':');
        } else if (entry.d_tag == DT_RUNPATH) {
            elf->runpath = split(name, ':');
        }
    }
}

} // namespace

bool Elf::needs(const std::string& beginning) const
{
    return std::ranges::any_of(
        needed, [&](const std::string& name) { return name.starts_with(beginning); });
}

std::optional<Elf> read_elf(const std::filesystem::path& path)
{
    std::error_code none;
    if (!std::filesystem::is_regular_file(path, none)) {
        return std::nullopt; // to open a pipe would wait for its other end
    }
    File file(path);
    Elf64_Ehdr header;
    if (!file.read(0, &header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
        header.e_ident[EI_CLASS] != ELFCLASS64) {
        return std::nullopt;
    }
    Elf elf;
    elf.has_capabilities = getxattr(path.c_str(), "security.capability", nullptr, 0) > 0;
    const auto segments = file.table<Elf64_Phdr>(header.e_phoff, header.e_phnum);
    for (const Elf64_Phdr& segment : segments) {
        elf.has_interpreter |= segment.p_type == PT_INTERP;
        if (segment.p_type == PT_DYNAMIC) {
            elf.is_dynamic = true;
            read_dynamic(file, segments, segment, &elf);
        }
    }
    const auto sections = file.table<Elf64_Shdr>(header.e_shoff, header.e_shnum);
    if (header.e_shstrndx < sections.size()) {
        const Elf64_Shdr& table = sections[header.e_shstrndx];
        const std::string names = file.text(table.sh_offset, table.sh_size);
        elf.has_device_code = std::ranges::any_of(sections, [&](const Elf64_Shdr& section) {
            return name_at(names, section.sh_name) == ".nv_fatbin";
        });
    }
    return elf;
}

} // namespace gdr::doctor
