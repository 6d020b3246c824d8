// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// This library's symbol table, in memory, is written to.
#include "mpi/entries/names.h"

#include <elf.h>
#include <link.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

// Called through addresses that are valid once data is relocated: calls by name may not be bound
// yet. This also holds for calls that compilers generate for initializers.
static struct {
    int (*iterate)(int (*)(struct dl_phdr_info*, size_t, void*), void*);
    int (*protect)(void*, size_t, int);
    long (*configured)(int);
} const volatile libc = {dl_iterate_phdr, mprotect, sysconf};

// What a loaded object defines.
struct object {
    const ElfW(Sym) * symbols;
    const char* strings;
    const uint32_t* gnu_hash;
    const uint32_t* hash; // the second word is the number of symbols
};

// glibc replaces offsets by addresses in dynamic sections that it can write to.
static const void* at(ElfW(Addr) base, ElfW(Addr) address)
{
    return (const void*)(address < base ? base + address : address);
}

static struct object object_of(ElfW(Addr) base, const ElfW(Dyn) * entry)
{
    struct object object;
    object.symbols = NULL, object.strings = NULL, object.gnu_hash = NULL, object.hash = NULL;
    for (; entry && entry->d_tag != DT_NULL; ++entry) {
        switch (entry->d_tag) {
        case DT_SYMTAB:
            object.symbols = at(base, entry->d_un.d_ptr);
            break;
        case DT_STRTAB:
            object.strings = at(base, entry->d_un.d_ptr);
            break;
        case DT_GNU_HASH:
            object.gnu_hash = at(base, entry->d_un.d_ptr);
            break;
        case DT_HASH:
            object.hash = at(base, entry->d_un.d_ptr);
            break;
        default:
            break;
        }
    }
    return object;
}

static int same(const char* a, const char* b)
{
    while (*a && *a == *b) {
        ++a, ++b;
    }
    return *a == *b;
}

// Searches the hash table that GNU linkers make.
static const ElfW(Sym) * find_by_gnu_hash(const struct object* object, const char* name)
{
    enum { BITS = 8 * sizeof(ElfW(Addr)) };
    uint32_t hash = 5381;
    for (const char* c = name; *c; ++c) {
        hash = hash * 33 + (unsigned char)*c;
    }
    const uint32_t buckets = object->gnu_hash[0], first = object->gnu_hash[1];
    const uint32_t words = object->gnu_hash[2], shift = object->gnu_hash[3];
    const ElfW(Addr)* const bloom = (const void*)(object->gnu_hash + 4);
    const uint32_t* const bucket = (const void*)(bloom + words);
    const uint32_t* const chain = bucket + buckets;
    if (buckets == 0 || words == 0) {
        return NULL;
    }
    const ElfW(Addr) word = bloom[hash / BITS % words];
    if (!(word >> hash % BITS & word >> (hash >> shift) % BITS & 1)) {
        return NULL;
    }
    for (uint32_t i = bucket[hash % buckets]; i >= first && i; ++i) {
        const ElfW(Sym)* const symbol = object->symbols + i;
        if ((chain[i - first] | 1) == (hash | 1) && same(object->strings + symbol->st_name, name)) {
            return symbol;
        }
        if (chain[i - first] & 1) {
            break;
        }
    }
    return NULL;
}

// NULL: the object does not define it.
static const ElfW(Sym) * find(const struct object* object, const char* name)
{
    if (!object->symbols || !object->strings) {
        return NULL;
    }
    if (object->gnu_hash) {
        return find_by_gnu_hash(object, name);
    }
    for (uint32_t i = 1; object->hash && i < object->hash[1]; ++i) {
        const ElfW(Sym)* const symbol = object->symbols + i;
        if (symbol->st_shndx != SHN_UNDEF && same(object->strings + symbol->st_name, name)) {
            return symbol;
        }
    }
    return NULL;
}

// An MPI library defines a function that this library lacks.
struct libraries {
    struct object found[2];
    size_t count;
};

static const ElfW(Dyn) * dynamic_section_of(const struct dl_phdr_info* info)
{
    for (size_t i = 0; i < info->dlpi_phnum; ++i) {
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC) {
            return (const ElfW(Dyn)*)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
        }
    }
    return NULL;
}

static int take_library(struct dl_phdr_info* info, size_t size, void* to)
{
    (void)size;
    struct libraries* const libraries = to;
    const struct object object = object_of(info->dlpi_addr, dynamic_section_of(info));
    if (find(&object, "PMPI_Get_library_version")) {
        libraries->found[libraries->count++] = object;
    }
    return libraries->count == sizeof(libraries->found) / sizeof(*libraries->found);
}

static struct libraries mpi_libraries(void)
{
    struct libraries libraries;
    libraries.count = 0;
    libc.iterate(take_library, &libraries);
    return libraries;
}

static int have(const struct libraries* libraries, const char* name)
{
    for (size_t i = 0; i < libraries->count; ++i) {
        if (find(&libraries->found[i], name)) {
            return 1;
        }
    }
    return 0;
}

// This library.
static struct {
    ElfW(Addr) base;
    struct object object;
    const struct gdr_mpi_name* names;
    size_t count;
} own;

static int take_own(struct dl_phdr_info* info, size_t size, void* unused)
{
    (void)size, (void)unused;
    if (dynamic_section_of(info) != _DYNAMIC) {
        return 0;
    }
    own.base = info->dlpi_addr;
    own.object = object_of(own.base, _DYNAMIC);
    return 1;
}

// Linkers put the strings after the symbols, both in read-only pages. Returns zero on failure.
static int protect_symbols(int protection)
{
    const uintptr_t symbols = (uintptr_t)own.object.symbols;
    const uintptr_t first = symbols - symbols % (uintptr_t)libc.configured(_SC_PAGESIZE);
    const uintptr_t end = (uintptr_t)own.object.strings;
    return own.object.hash && symbols < end &&
           libc.protect((void*)first, end - first, protection) == 0;
}

static void hide(const char* name)
{
    // One word: another thread that looks the name up now finds it unchanged or not at all.
    ElfW(Sym)* const symbol = (ElfW(Sym)*)find(&own.object, name);
    __atomic_store_n(&symbol->st_name, 0, __ATOMIC_RELAXED);
}

static void hide_what_lacks(const struct libraries* libraries)
{
    if (!protect_symbols(PROT_READ | PROT_WRITE)) {
        return;
    }
    for (size_t i = 0; i < own.count; ++i) {
        if (have(libraries, own.names[i].name)) {
            continue;
        }
        hide(own.names[i].name);
        hide(own.names[i].name + 1);
    }
    protect_symbols(PROT_READ);
}

// Finds symbols by the functions' addresses: name lookups would take longer, in each process.
enum { PLACES = 4 * GDR_MPI_MOST_NAMES };

static const struct gdr_mpi_symbol* symbol_of(size_t i)
{
    return &own.names[i / 2].symbols[i % 2];
}

// The entry with the function's number, counted from 1, or the free entry for it.
static uint16_t* place_of(uint16_t* numbers, uintptr_t function)
{
    size_t i = function / 16 % PLACES;
    while (numbers[i] != 0 && (uintptr_t)symbol_of(numbers[i] - 1)->function != function) {
        i = (i + 1) % PLACES;
    }
    return &numbers[i];
}

static void make_indirect(void)
{
    static uint16_t numbers[PLACES]; // static: compilers call memset for an array on the stack
    for (size_t i = 0; i < 2 * own.count; ++i) {
        *place_of(numbers, (uintptr_t)symbol_of(i)->function) = (uint16_t)(i + 1);
    }
    ElfW(Sym)* const symbols = (ElfW(Sym)*)own.object.symbols;
    for (uint32_t i = 1; i < own.object.hash[1]; ++i) {
        const uint16_t number = *place_of(numbers, own.base + symbols[i].st_value);
        if (number == 0) {
            continue;
        }
        symbols[i].st_value = (uintptr_t)symbol_of(number - 1)->choose - own.base;
        symbols[i].st_info = ELF64_ST_INFO(ELF64_ST_BIND(symbols[i].st_info), STT_GNU_IFUNC);
    }
}

void gdr_mpi_show_names(const struct gdr_mpi_name* names, size_t count)
{
    libc.iterate(take_own, NULL);
    own.names = names;
    own.count = count;
    const struct libraries libraries = mpi_libraries();
    if (libraries.count != 0) {
        hide_what_lacks(&libraries);
    } else if (protect_symbols(PROT_READ | PROT_WRITE)) {
        make_indirect();
        protect_symbols(PROT_READ);
    }
}

// Names that the library lacks are hidden as soon as it is loaded, so that dlsym() fails for them.
int gdr_mpi_shows(const char* name)
{
    static atomic_flag begun = ATOMIC_FLAG_INIT;
    static atomic_int done = 0;
    if (atomic_load(&done)) {
        return 1;
    }
    const struct libraries libraries = mpi_libraries();
    if (libraries.count == 0) {
        return 1;
    }
    if (!atomic_flag_test_and_set(&begun)) {
        hide_what_lacks(&libraries);
        atomic_store(&done, 1);
    }
    return have(&libraries, name);
}
