// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The objects of the process: the program and the libraries loaded into it. Which UCX somebody uses
// follows from the libraries he is linked with, whatever their paths, file names, sonames and
// scopes.
#pragma once

#include <stdint.h>

// Where the object that holds the address is loaded. NULL: none does.
const void* gdr_object_of(const void* address);

struct gdr_object {
    uintptr_t start, end; // of its addresses
    const char* name;     // its path, "" of the program
};

// The one that holds the address. Zero: none does.
int gdr_find_object(const void* address, struct gdr_object* object);

// One more handle of that object, for dlclose(). NULL: it is the program.
void* gdr_open_object_of(const void* address);

// The function that a caller would get if this library were not in front of it. NULL: none.
void* gdr_function_for(const void* caller, const char* name);

// An address in the libuct loaded last, NULL when there is none. For constructors alone: nobody
// else loads or unloads while one runs.
const void* gdr_libuct_loaded_last(void);

// Whether others, those loaded later too, get the functions of this library before those of UCX.
int gdr_is_in_front(void);

// Makes it so for what is loaded from now on.
void gdr_come_to_the_front(void);
