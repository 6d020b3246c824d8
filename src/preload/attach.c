// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Finds the module beside this library, opens it and passes it the UCX that was found.
#include "preload/attach.h"

#include "preload/objects.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef enum gdr_answer Attach(void* libuct, enum gdr_moment moment);

static _Atomic(const void*) started = NULL; // the UCX about which the module knows everything
static struct gdr_service service;          // complete before started is set

// ucs_log_dispatch() and the beginning of ucs_global_opts, the same in all series.
typedef void LogDispatch(const char* file, unsigned line, const char* function, unsigned level,
                         const void* component, const char* format, ...);
typedef void LogFlush(void);
enum { WARN = 2 }; // UCS_LOG_LEVEL_WARN

// Flushes the log: standard output, if it is no terminal, loses it in a crash, and a UCX without
// gdr lets the CPU access GPU memory.
static void warn(void* libuct, const char* reason)
{
    LogDispatch* log = (LogDispatch*)dlsym(libuct, "ucs_log_dispatch");
    LogFlush* flush = (LogFlush*)dlsym(libuct, "ucs_log_flush");
    const unsigned* options = dlsym(libuct, "ucs_global_opts");
    if (!log || !options || *options < WARN) {
        return;
    }
    log(__FILE__, __LINE__, "", WARN, options, "gdr: not used: %s", reason);
    if (flush) {
        flush();
    }
}

static int ends_with(const char* text, const char* end)
{
    const size_t length = strlen(text), of_end = strlen(end);
    return length >= of_end && strcmp(text + length - of_end, end) == 0;
}

// An installed module is in the project's directory beside this library, and nowhere else: others
// may be able to write to directories around it. Links to this library, as in UCX's directories of
// modules, are followed.
static int find_module(char path[PATH_MAX])
{
    Dl_info info;
    char own[PATH_MAX];
    if (!dladdr(&find_module, &info) || !realpath(info.dli_fname, own)) {
        return 0;
    }
    strrchr(own, '/')[1] = '\0';
    const char* name = ends_with(own, "/src/preload/.libs/") ? "../../plugin/.libs/gdr_module.so"
                                                             : "ucx-gdr/gdr_module.so";
    if (snprintf(path, PATH_MAX, "%s%s", own, name) < PATH_MAX && access(path, R_OK) == 0) {
        return 1;
    }
    snprintf(path, PATH_MAX, "%.*s%s is missing: is ucx-gdr installed completely?", PATH_MAX / 2,
             own, name);
    return 0;
}

static Attach* open_module(void* libuct)
{
    char path[PATH_MAX];
    if (!find_module(path)) {
        warn(libuct, path);
        return NULL;
    }
    void* module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    Attach* attach = module ? (Attach*)dlsym(module, "gdr_attach") : NULL;
    if (attach) {
        *(void**)&service.look_up_memory = dlsym(module, "gdr_look_up_memory");
        *(void**)&service.context_begins = dlsym(module, "gdr_context_begins");
        *(void**)&service.context_ends = dlsym(module, "gdr_context_ends");
        *(void**)&service.iface_opens = dlsym(module, "gdr_iface_opens");
    } else {
        char reason[PATH_MAX]; // warn() looks symbols up, which ends dlerror()'s text
        snprintf(reason, sizeof(reason), "%s", dlerror());
        warn(libuct, reason);
    }
    return attach;
}

void gdr_found_ucx(const void* in_libuct, enum gdr_moment moment)
{
    static pthread_mutex_t mutex = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
    static int busy = 0; // the module opens libraries, whose constructors may come here
    static int tried = 0;
    static Attach* attach = NULL;

    if (gdr_object_of(in_libuct) == atomic_load(&started)) {
        return;
    }
    pthread_mutex_lock(&mutex);
    if (!busy) {
        busy = 1;
        void* libuct = gdr_open_object_of(in_libuct);
        if (libuct && !tried) {
            tried = 1;
            attach = open_module(libuct);
        }
        const enum gdr_answer answer = libuct && attach ? attach(libuct, moment) : GDR_OTHER;
        if (answer == GDR_SERVED && moment == GDR_UCX_STARTS) {
            atomic_store(&started, gdr_object_of(in_libuct));
        }
        if (libuct && answer == GDR_OTHER) {
            dlclose(libuct);
        }
        busy = 0;
    }
    pthread_mutex_unlock(&mutex);
}

const struct gdr_service* gdr_service_for(const void* in_libuct)
{
    const void* libuct = in_libuct ? gdr_object_of(in_libuct) : NULL;
    return libuct && libuct == atomic_load(&started) ? &service : NULL;
}
