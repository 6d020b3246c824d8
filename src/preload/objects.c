// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The dynamic linker's answers.
#include "preload/objects.h"

#include <dlfcn.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static struct link_map* map_of(const void* address)
{
    Dl_info info;
    struct link_map* map;
    return address && dladdr1(address, &info, (void**)&map, RTLD_DL_LINKMAP) ? map : NULL;
}

// By the name under which it was loaded, whether or not that file still exists.
static void* open_map(const struct link_map* map)
{
    return map && *map->l_name ? dlopen(map->l_name, RTLD_LAZY | RTLD_NOLOAD) : NULL;
}

static int is_ours(const void* address)
{
    return map_of(address) == map_of(&is_ours);
}

const void* gdr_object_of(const void* address)
{
    return map_of(address);
}

struct Search {
    uintptr_t address;
    struct gdr_object* found;
};

static int take_object(struct dl_phdr_info* object, size_t size, void* to)
{
    (void)size;
    const struct Search* search = to;
    uintptr_t start = UINTPTR_MAX, end = 0;
    for (size_t i = 0; i < object->dlpi_phnum; ++i) {
        const ElfW(Phdr)* segment = &object->dlpi_phdr[i];
        const uintptr_t first = object->dlpi_addr + segment->p_vaddr;
        if (segment->p_type != PT_LOAD) {
            continue;
        }
        if (first < start) {
            start = first;
        }
        if (first + segment->p_memsz > end) {
            end = first + segment->p_memsz;
        }
    }
    if (search->address < start || search->address >= end) {
        return 0;
    }
    *search->found = (struct gdr_object){start, end, object->dlpi_name};
    return 1;
}

int gdr_find_object(const void* address, struct gdr_object* object)
{
    struct Search search = {(uintptr_t)address, object};
    return dl_iterate_phdr(take_object, &search);
}

void* gdr_open_object_of(const void* address)
{
    return open_map(map_of(address));
}

static const char* strings_of(const struct link_map* map)
{
    ElfW(Addr) strings = 0;
    for (const ElfW(Dyn)* entry = map->l_ld; entry && entry->d_tag != DT_NULL; ++entry) {
        if (entry->d_tag == DT_STRTAB) {
            strings = entry->d_un.d_ptr;
        }
    }
    if (strings &&
        strings < map->l_addr) { // as in the file: the kernel's own object is not relocated
        strings += map->l_addr;
    }
    return (const char*)strings;
}

// A caller that is linked with a front library (src/front) finds this library first. Then the other
// libraries that the front library needs are asked.
static void* function_behind_us(const struct link_map* object, const char* name, int depth)
{
    const char* strings = strings_of(object);
    void* function = NULL;
    for (const ElfW(Dyn)* entry = object->l_ld;
         strings && depth > 0 && !function && entry->d_tag != DT_NULL; ++entry) {
        void* needed = entry->d_tag == DT_NEEDED
                           ? dlopen(strings + entry->d_un.d_val, RTLD_LAZY | RTLD_NOLOAD)
                           : NULL;
        if (!needed) {
            continue;
        }
        struct link_map* map;
        const int known = dlinfo(needed, RTLD_DI_LINKMAP, &map) == 0 && map != map_of(&is_ours);
        function = known ? dlsym(needed, name) : NULL;
        if (function && is_ours(function)) {
            function = function_behind_us(map, name, depth - 1);
        }
        dlclose(needed);
    }
    return function;
}

void* gdr_function_for(const void* caller, const char* name)
{
    enum { DEPTH = 8 };                      // libraries that need each other
    void* function = dlsym(RTLD_NEXT, name); // global symbols come first for every caller
    void* object = function ? NULL : gdr_open_object_of(caller);
    if (object) {
        function = dlsym(object, name);
        if (function && is_ours(function)) {
            function = function_behind_us(map_of(caller), name, DEPTH);
        }
        dlclose(object);
    }
    return function && !is_ours(function) ? function : NULL;
}

static const char* soname_of(const struct link_map* map)
{
    const char* strings = strings_of(map);
    for (const ElfW(Dyn)* entry = map->l_ld; strings && entry->d_tag != DT_NULL; ++entry) {
        if (entry->d_tag == DT_SONAME) {
            return strings + entry->d_un.d_val;
        }
    }
    return "";
}

// dlopen() initialises a library, so handles are made only for libraries that may be libuct.
static int may_be_libuct(const struct link_map* map)
{
    const char* slash = strrchr(map->l_name, '/');
    return *map->l_name && (strstr(slash ? slash : map->l_name, "libuct") ||
                            strncmp(soname_of(map), "libuct", strlen("libuct")) == 0);
}

const void* gdr_libuct_loaded_last(void)
{
    const void* found = NULL;
    struct link_map* map = map_of(&is_ours);
    while (map->l_prev) {
        map = map->l_prev;
    }
    for (; map; map = map->l_next) {
        void* library = may_be_libuct(map) ? open_map(map) : NULL;
        if (!library) {
            continue;
        }
        const void* function = dlsym(library, "uct_component_register");
        if (function && map_of(function) == map) {
            found = function;
        }
        dlclose(library);
    }
    return found;
}

int gdr_is_in_front(void)
{
    void* program = dlopen(NULL, RTLD_LAZY);
    const void* first = dlsym(program, "ucs_config_parser_fill_opts");
    dlclose(program);
    return first && is_ours(first);
}

void gdr_come_to_the_front(void)
{
    if (!gdr_is_in_front()) {
        dlopen(map_of(&is_ours)->l_name, RTLD_LAZY | RTLD_NOLOAD | RTLD_GLOBAL);
    }
}
