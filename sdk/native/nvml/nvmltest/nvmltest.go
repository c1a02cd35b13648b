// Package nvmltest is a small NVML for tests, as C source.
package nvmltest

import "strings"

// Source is a library of four GPUs on bus ids 17, 18, 97 and 98: the first two are joined by four NVLinks, the others
// by three each into a switch; the first two are PIX, the others PXB, and SYS lies between the two pairs. Peer-to-peer
// access is there within a pair and refused (chipset) between them. GPU 3 is divided in two. Init sleeps for hang
// seconds and then returns code.
func Source(hang, code string) string {
	return strings.NewReplacer("HANG", hang, "CODE", code).Replace(source)
}

const source = `
#include <stdio.h>
#include <string.h>
#include <unistd.h>
typedef struct { char legacy[16]; unsigned domain, bus, device, id, sub; char text[32]; } pci;
static const unsigned buses[4] = {0x17, 0x18, 0x97, 0x98};
static int n(void *gpu) { return (int)(long)gpu - 100; }
int nvmlInit_v2(void) { sleep(HANG); return CODE; }
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int e) { return e == 9 ? "Driver Not Loaded" : "Some Error"; }
int nvmlSystemGetDriverVersion(char *s, unsigned size) { snprintf(s, size, "570.86.10"); return 0; }
int nvmlDeviceGetCount_v2(unsigned *c) { *c = 4; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **gpu) { *gpu = (void *)(long)(100 + i); return 0; }
int nvmlDeviceGetUUID(void *gpu, char *s, unsigned size) {
	if (n(gpu) >= 900) snprintf(s, size, "MIG-%08d-0000-0000-0000-000000000000", n(gpu) - 900);
	else snprintf(s, size, "GPU-%08d-0000-0000-0000-000000000000", n(gpu));
	return 0;
}
static void fill(pci *p, unsigned bus) { memset(p, 0, sizeof *p); p->bus = bus; snprintf(p->text, 32, "00000000:%02X:00.0", bus); }
int nvmlDeviceGetPciInfo_v3(void *gpu, pci *p) { fill(p, buses[n(gpu)]); return 0; }
int nvmlDeviceGetName(void *gpu, char *s, unsigned size) { snprintf(s, size, "NVIDIA Test %d", n(gpu) / 2); return 0; }
int nvmlDeviceGetCudaComputeCapability(void *gpu, int *major, int *minor) { *major = 9; *minor = n(gpu) / 2; return 0; }
int nvmlDeviceGetTopologyCommonAncestor(void *a, void *b, unsigned *level) {
	*level = n(a) / 2 != n(b) / 2 ? 50 : n(a) < 2 ? 10 : 20;
	return 0;
}
int nvmlDeviceGetP2PStatus(void *a, void *b, unsigned what, unsigned *status) {
	if (what == 3) return 3;
	*status = n(a) / 2 == n(b) / 2 ? 0 : 1;
	return 0;
}
int nvmlDeviceGetNvLinkState(void *gpu, unsigned link, unsigned *active) {
	if (link >= 18) return 2;
	*active = link < (n(gpu) < 2 ? 4 : 3);
	return 0;
}
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *gpu, unsigned link, pci *p) { fill(p, n(gpu) < 2 ? buses[1 - n(gpu)] : 0xf0 + link); return 0; }
int nvmlDeviceGetNvLinkRemoteDeviceType(void *gpu, unsigned link, unsigned *kind) { *kind = n(gpu) < 2 ? 0 : 2; return 0; }
int nvmlDeviceGetMigMode(void *gpu, unsigned *current, unsigned *pending) { *current = n(gpu) == 3; *pending = *current; return 0; }
int nvmlDeviceGetMaxMigDeviceCount(void *gpu, unsigned *c) { *c = 7; return 0; }
int nvmlDeviceGetMigDeviceHandleByIndex(void *gpu, unsigned i, void **part) { if (i > 1) return 6; *part = (void *)(long)(1000 + i); return 0; }
`
