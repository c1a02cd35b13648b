/* Finds and opens the real NCCL, by absolute path: by name the loader would give this library once more. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "dropin.h"

#define NAME "libnccl.so.2"
#if defined(__x86_64__)
#define MULTIARCH "x86_64-linux-gnu"
#else
#define MULTIARCH "aarch64-linux-gnu"
#endif

/* Tells copies of this library from NCCL. */
__attribute__((visibility("default"))) const int weir_nccl_dropin = 1;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static void *handle;
static uintptr_t from, to; /* where the real library is */
static char path[PATH_MAX];

const char *weir_nccl_real_path(void) { return path; }

/* A preloaded library, or one that the program is linked to, answers for names that it does not have if the real one comes
 * after it in the global scope. Opened by path it is nobody's business but its opener's. */
static int scope(void) { return dlsym(RTLD_DEFAULT, "weir_nccl_dropin") == &weir_nccl_dropin ? RTLD_GLOBAL : RTLD_LOCAL; }

static int try(const char *file) {
	struct stat s;
	if (file[0] != '/' || stat(file, &s)) return 0;
	void *h = dlopen(file, RTLD_LAZY | scope());
	if (!h || dlsym(h, "weir_nccl_dropin") || !dlsym(h, "ncclAllReduce")) {
		if (h) dlclose(h);
		return 0;
	}
	if (!realpath(file, path)) snprintf(path, sizeof path, "%s", file);
	handle = h;
	return 1;
}

static int in(const char *folder, size_t n) {
	char file[PATH_MAX];
	return n && snprintf(file, sizeof file, "%.*s/" NAME, (int)n, folder) < (int)sizeof file && try(file);
}

/* in_list tries folders between colons; $ORIGIN is the folder of an object. */
static int in_list(const char *list, const char *origin) {
	for (const char *end; list && *list; list = *end ? end + 1 : end) {
		end = strchrnul(list, ':');
		char folder[PATH_MAX];
		size_t prefix = !strncmp(list, "$ORIGIN", 7) ? 7 : !strncmp(list, "${ORIGIN}", 9) ? 9 : 0;
		const char *slash = origin ? strrchr(origin, '/') : NULL;
		int n;
		if (!prefix) n = snprintf(folder, sizeof folder, "%.*s", (int)(end - list), list);
		else if (!slash) continue;
		else n = snprintf(folder, sizeof folder, "%.*s%.*s", (int)(slash - origin), origin, (int)(end - list - prefix), list + prefix);
		if (n > 0 && n < (int)sizeof folder && in(folder, n)) return 1;
	}
	return 0;
}

/* needs_from is the value of an object's DT_RPATH or DT_RUNPATH if it is linked to NCCL. */
static const char *needs_from(struct link_map *l, int tag) {
	const char *strings = NULL;
	for (ElfW(Dyn) *d = l->l_ld; d->d_tag != DT_NULL; d++)
		if (d->d_tag == DT_STRTAB) strings = (const char *)(d->d_un.d_ptr < l->l_addr ? d->d_un.d_ptr + l->l_addr : d->d_un.d_ptr);
	const char *list = NULL;
	int linked = 0;
	for (ElfW(Dyn) *d = l->l_ld; strings && d->d_tag != DT_NULL; d++) {
		if (d->d_tag == DT_NEEDED && !strcmp(strings + d->d_un.d_val, NAME)) linked = 1;
		if (d->d_tag == tag) list = strings + d->d_un.d_val;
	}
	return linked ? list : NULL;
}

/* What the loader would have found, were this library not there. */
static int as_the_loader(struct link_map *first) {
	char program[PATH_MAX];
	if (!realpath("/proc/self/exe", program)) program[0] = 0;
	for (int tag = DT_RPATH;; tag = DT_RUNPATH) {
		for (struct link_map *l = first; l; l = l->l_next)
			if (in_list(needs_from(l, tag), l->l_name && *l->l_name ? l->l_name : program)) return 1;
		if (tag == DT_RUNPATH) return 0;
		if (in_list(getenv("LD_LIBRARY_PATH"), program)) return 1;
	}
}

/* Where PyTorch's wheels find it: beside the packages from which something is loaded. */
static int beside_packages(struct link_map *first) {
	static const char *const folders[] = {"/site-packages/", "/dist-packages/"};
	for (struct link_map *l = first; l; l = l->l_next)
		for (int i = 0; i < 2; i++) {
			const char *at = l->l_name ? strstr(l->l_name, folders[i]) : NULL;
			char file[PATH_MAX];
			if (at && snprintf(file, sizeof file, "%.*snvidia/nccl/lib/" NAME, (int)(at - l->l_name + strlen(folders[i])), l->l_name) < (int)sizeof file && try(file))
				return 1;
		}
	return 0;
}

static int loaded(struct link_map *first) {
	for (struct link_map *l = first; l; l = l->l_next) {
		const char *slash = l->l_name ? strrchr(l->l_name, '/') : NULL;
		if (slash && !strncmp(slash + 1, "libnccl.so", 10) && try(l->l_name)) return 1;
	}
	return 0;
}

static struct link_map *first_object(void) {
	struct link_map *first = NULL;
	void *program = dlopen(NULL, RTLD_LAZY);
	if (program) dlinfo(program, RTLD_DI_LINKMAP, &first);
	while (first && first->l_prev) first = first->l_prev;
	return first;
}

static void find(void) {
	static const char usual[] = "/usr/local/cuda/lib64:/usr/local/lib:/usr/lib/" MULTIARCH ":/lib/" MULTIARCH ":/usr/lib64:/lib64:/usr/lib:/lib";
	const char *named = getenv("WEIR_NCCL_LIB");
	if (named && *named) {
		if (!try(named)) weir_nccl_say("WEIR_NCCL_LIB=%s is not the absolute path of an NCCL: %s", named, named[0] == '/' ? "it does not open, or is this library" : "it does not begin with /");
		return;
	}
	struct link_map *first = first_object();
	if (loaded(first) || as_the_loader(first) || beside_packages(first) || in_list(usual, NULL)) return;
	weir_nccl_say("no NCCL found to pass calls to; set WEIR_NCCL_LIB to the absolute path of " NAME);
}

/* place notes where an object is if it has the address that the loader gave the real one. */
static int place(struct dl_phdr_info *o, size_t n, void *address) {
	(void)n;
	if (o->dlpi_addr != (uintptr_t)address) return 0;
	from = UINTPTR_MAX;
	for (int i = 0; i < o->dlpi_phnum; i++) {
		const ElfW(Phdr) *h = &o->dlpi_phdr[i];
		uintptr_t start = o->dlpi_addr + h->p_vaddr;
		if (h->p_type != PT_LOAD) continue;
		if (start < from) from = start;
		if (start + h->p_memsz > to) to = start + h->p_memsz;
	}
	return 1;
}

static void open_real(void) {
	struct link_map *l;
	find();
	if (handle && !dlinfo(handle, RTLD_DI_LINKMAP, &l)) dl_iterate_phdr(place, (void *)l->l_addr);
}

int weir_nccl_real(void) {
	pthread_once(&once, open_real);
	return handle != NULL;
}

int weir_nccl_is_real(const void *code) { return (uintptr_t)code - from < to - from; }

/* What libweir.so asks before it joins: ranks are to be served with the copy that their other calls go to. */
__attribute__((visibility("default"))) const char *weir_nccl_opened(void) { return weir_nccl_real() ? path : ""; }

static ncclResult_t unavailable(void) { return SYSTEM_ERROR; }
static ncclResult_t unknown(void) { return INVALID_USAGE; }
static const char *no_words(void) { return "the real NCCL is not there, or too old: see what weir-nccl wrote on standard error"; }

typedef struct {
	void *address;
	const char *name;
} slot;

/* weir_nccl_resolve fills the slot of a trampoline; forward.S calls it once for each function that is used. */
__attribute__((used)) void *weir_nccl_resolve(slot *s) {
	void *address = weir_nccl_real() ? dlsym(handle, s->name) : NULL;
	if (!address && handle && s->name[0] == 'p') address = dlsym(handle, s->name + 1); /* built without twins */
	if (!address && handle) weir_nccl_say("%s has no %s", path, s->name);
	if (!address) address = strstr(s->name, "ncclGetErrorString") || strstr(s->name, "ncclGetLastError") ? (void *)no_words : handle ? (void *)unknown : (void *)unavailable;
	__atomic_store_n(&s->address, address, __ATOMIC_RELEASE);
	return address;
}
