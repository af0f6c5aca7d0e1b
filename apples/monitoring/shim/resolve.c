/* Finding the MPI library of the program, and its kind. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "monitor.h"

struct library monitor_library;

struct search {
    const char *name;
    void *found;
};

static void *found_in(const char *object, const char *name) {
    void *handle = dlopen(object, RTLD_LAZY | RTLD_NOLOAD | RTLD_LOCAL);
    void *at = NULL;
    if (handle != NULL) {
        at = dlsym(handle, name);
        dlclose(handle);
    }
    return at;
}

static int look_into(struct dl_phdr_info *info, size_t size, void *data) {
    struct search *search = data;
    Dl_info us;
    (void)size;
    if (info->dlpi_name == NULL || !*info->dlpi_name)
        return 0;
    if (dladdr((void *)look_into, &us) && us.dli_fname != NULL && !strcmp(us.dli_fname, info->dlpi_name))
        return 0;
    search->found = found_in(info->dlpi_name, search->name);
    return search->found != NULL;
}

/* The function behind the wrapper: in the program's own scope, or in a library that was opened privately, as Python's
   modules are. Null if there is none. */
void *monitor_find(const char *name) {
    struct search search = {name, dlsym(RTLD_NEXT, name)};
    if (search.found == NULL)
        dl_iterate_phdr(look_into, &search);
    return search.found;
}

/* The same for data. A program may hold the only valid copy of a library's variable, so it is searched first. */
static void *find_data(const char *name) {
    void *at = dlsym(RTLD_DEFAULT, name);
    return at != NULL ? at : monitor_find(name);
}

/* Resolve every stride-th of the symbols. Their library is searched once; then every name is looked up in it alone. */
void monitor_resolve(const struct symbol *symbols, size_t count, size_t stride) {
    Dl_info library;
    void *handle = NULL;
    for (size_t i = 0; i < count; i += stride) {
        if (*symbols[i].at != NULL)
            continue;
        void *at = handle != NULL ? dlsym(handle, symbols[i].name) : NULL;
        if (at == NULL && handle == NULL) {
            at = monitor_find(symbols[i].name);
            if (at != NULL && dladdr(at, &library))
                handle = dlopen(library.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_LOCAL);
        }
        *symbols[i].at = at;
    }
    /* The handle is kept: the library stays as long as the program does. */
}

/* Tables of C functions, added by constructors before the program begins. */
static struct {
    const struct symbol *symbols;
    size_t count;
} tables[2];

void monitor_add_symbols(const struct symbol *symbols, size_t count) {
    size_t i = tables[0].symbols != NULL;
    tables[i].symbols = symbols;
    tables[i].count = count;
}

void monitor_resolve_c(void) {
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        monitor_resolve(tables[i].symbols, tables[i].count, 1);
}

_Noreturn void monitor_missing(const char *name) {
    fprintf(stderr, MONITOR_NAME ": %s is in no library of this program\n", name);
    abort();
}

void monitor_identify(void) {
    struct library *l = &monitor_library;
    void *open_mpi_world = find_data("ompi_mpi_comm_world");
    void *init = monitor_find("PMPI_Init");
    Dl_info where;
    if (open_mpi_world != NULL) {
        *l = (struct library){.flavour = OPEN_MPI,
                              .world = (slot)open_mpi_world,
                              .none = (slot)find_data("ompi_mpi_comm_null"),
                              .byte = (slot)find_data("ompi_mpi_byte"),
                              .any_source = -1,
                              .proc_null = -2,
                              .multiple = 3,
                              .source_at = 0};
    } else if (init != NULL && dladdr(init, &where) && strstr(where.dli_fname, "mpi_abi") != NULL) {
        *l = (struct library){.flavour = STANDARD_ABI,
                              .world = 0x101,
                              .none = 0x100,
                              .byte = 0x247,
                              .any_source = -1,
                              .proc_null = -3,
                              .multiple = 4096,
                              .source_at = 0};
    } else {
        *l = (struct library){.flavour = MPICH,
                              .world = 0x44000000,
                              .none = 0x04000000,
                              .byte = 0x4c00010d,
                              .errors_return = 0x54000001,
                              .any_source = -2,
                              .proc_null = -1,
                              .multiple = 3,
                              .source_at = 2};
    }
}
