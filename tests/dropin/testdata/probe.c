// A program linked to NCCL that asks for a function that this Weir may not know: probe.c WHAT.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int ncclGetVersion(int *);
const char *ncclGetErrorString(int), *ncclGetLastError(void *);
#ifdef NEWER
int ncclBrandNew(int);
#endif

int main(int argc, char **argv) {
	const char *what = argc > 1 ? argv[1] : "";
	int version = 0, r = ncclGetVersion(&version);
	if (!strcmp(what, "version")) printf("result %d version %d error %s last %s\n", r, version, ncclGetErrorString(2), ncclGetLastError(0));
#ifdef NEWER
	if (!strcmp(what, "call")) printf("new %d\n", ncclBrandNew(21));
	if (!strcmp(what, "default")) printf("new %d\n", ((int (*)(int))dlsym(RTLD_DEFAULT, "ncclBrandNew"))(21));
	if (!strcmp(what, "handle")) printf("new %d\n", ((int (*)(int))dlsym(dlopen("libnccl.so.2", RTLD_NOW), "ncclBrandNew"))(21));
#endif
	if (!strcmp(what, "maps")) {
		char line[4096];
		FILE *f = fopen("/proc/self/maps", "r");
		while (fgets(line, sizeof line, f))
			if (strstr(line, "nccl") || strstr(line, "weir")) fputs(line, stdout);
	}
	return 0;
}
