// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The objects of the process: the program and the libraries loaded into it. The libraries that a
// caller is linked with determine which UCX it uses, whatever their paths, file names, sonames and
// scopes.
#pragma once

#include <stdint.h>

// A value that identifies the object that holds the address. NULL: there is none.
const void* gdr_object_of(const void* address);

struct gdr_object {
    uintptr_t start, end; // of its addresses
    const char* name;     // its path; "" for the program
};

// Finds the object that holds the address. Zero: there is none.
int gdr_find_object(const void* address, struct gdr_object* object);

// Another handle of that object, for dlclose(). NULL: it is the program.
void* gdr_open_object_of(const void* address);

// The function that a caller would get if this library were not in front of it. NULL: none.
void* gdr_function_for(const void* caller, const char* name);

// An address in the libuct loaded last; NULL if there is none. Only for constructors: no other
// thread loads or unloads libraries while one runs.
const void* gdr_libuct_loaded_last(void);

// Whether other libraries, including those loaded later, get this library's functions before those
// of UCX.
int gdr_is_in_front(void);

// Makes it so for what is loaded from now on.
void gdr_come_to_the_front(void);
