/* The driver, its devices, their contexts, and faults on demand. */
#include "driver.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

__thread Context *current;
pthread_mutex_t everything = PTHREAD_MUTEX_INITIALIZER;
static pid_t initialised;
static Context contexts[MOST_DEVICES];

long setting(const char *name, long otherwise) {
    const char *text = getenv(name);
    return text && *text ? strtol(text, NULL, 0) : otherwise;
}

/* ------------------------------------------------------------ faults on demand */

static void note(const char *name) {
    const char *path = getenv("STAND_IN_CALLS");
    FILE *file = path && *path ? fopen(path, "a") : NULL;
    if (!file) return;
    fprintf(file, "%s\n", name);
    fclose(file);
}

/* How often this name was called since STAND_IN_FAIL last changed. */
static long times_called(const char *name, const char *demand) {
    static struct { char name[64]; long calls; } counts[128];
    static char counted_for[1024];
    long calls = 0;
    pthread_mutex_lock(&everything);
    if (strncmp(counted_for, demand, sizeof counted_for - 1)) {
        memset(counts, 0, sizeof counts);
        snprintf(counted_for, sizeof counted_for, "%s", demand);
    }
    for (int i = 0; i < 128; i++) {
        if (!counts[i].name[0]) snprintf(counts[i].name, sizeof counts[i].name, "%s", name);
        if (!strcmp(counts[i].name, name)) { calls = ++counts[i].calls; break; }
    }
    pthread_mutex_unlock(&everything);
    return calls;
}

/* `cuMemAlloc` in STAND_IN_FAIL means every version of the call: cuMemAlloc_v2 as well. */
static int names(const char *demand, const char *name) {
    size_t n = strcspn(demand, ":");
    return !strncmp(demand, name, n) && (!name[n] || !strncmp(name + n, "_v", 2) || !strcmp(name + n, "WithFlags"));
}

static Result demanded(const char *name) {
    const char *demands = getenv("STAND_IN_FAIL");
    if (!demands || !*demands) return OK;
    long calls = times_called(name, demands);
    for (const char *at = demands; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        const char *colon = strchr(at, ':');
        if (!colon || !names(at, name)) continue;
        char *end;
        Result answer = (Result)strtol(colon + 1, &end, 0);
        long from = *end == '@' || *end == '!' ? strtol(end + 1, NULL, 0) : 1;
        if (*end == '!' ? calls == from : calls >= from) return answer;
    }
    return OK;
}

Result begin(const char *name) {
    note(name);
    Result answer = demanded(name);
    if (answer) return answer;
    return initialised == getpid() ? OK : NOT_INITIALIZED; /* as the driver: a forked process has none */
}

Result in_context(const char *name) {
    Result answer = begin(name);
    if (answer) return answer;
    return current ? current->error : INVALID_CONTEXT;
}

/* ------------------------------------------------------------ devices */

/* Physical numbers of the devices that CUDA_VISIBLE_DEVICES lets through, in its order; what is not a number of a device ends the list. */
static int visible(int numbers[MOST_DEVICES]) {
    int all = (int)setting("STAND_IN_DEVICES", 0), count = 0;
    const char *text = getenv("CUDA_VISIBLE_DEVICES");
    if (all > MOST_DEVICES) all = MOST_DEVICES;
    if (!text) {
        for (; count < all; count++) numbers[count] = count;
        return count;
    }
    while (*text && count < MOST_DEVICES) {
        char *end;
        long number = strtol(text, &end, 10);
        if (end == text || number < 0 || number >= all) break;
        numbers[count++] = (int)number;
        if (*end != ',') break;
        text = end + 1;
    }
    return count;
}
static int physical(int device) {
    int numbers[MOST_DEVICES], count = visible(numbers);
    return device >= 0 && device < count ? numbers[device] : -1;
}
#define DEVICE(d) do { BEGIN; if (physical(d) < 0) return INVALID_DEVICE; } while (0)

API Result cuInit(unsigned flags) {
    int numbers[MOST_DEVICES];
    note(__func__);
    Result answer = demanded(__func__);
    if (answer) return answer;
    if (flags) return INVALID_VALUE;
    if (initialised != getpid() && !visible(numbers)) return NO_DEVICE;
    initialised = getpid();
    return OK;
}
API Result cuDriverGetVersion(int *version) {
    note(__func__); /* the one call that needs no cuInit */
    Result answer = demanded(__func__);
    if (answer) return answer;
    *version = (int)setting("STAND_IN_DRIVER", 13000);
    return OK;
}
API Result cuDeviceGetCount(int *count) { int numbers[MOST_DEVICES]; BEGIN; *count = visible(numbers); return OK; }
API Result cuDeviceGet(int *device, int index) { DEVICE(index); *device = index; return OK; }
API Result cuDeviceGetName(char *name, int room, int device) {
    DEVICE(device);
    if (room <= 0) return INVALID_VALUE;
    snprintf(name, (size_t)room, "CUDA stand-in (no GPU)%s", setting("STAND_IN_MIG", 0) ? " MIG 1g.10gb" : "");
    return OK;
}
API Result cuDeviceGetUuid_v2(unsigned char *uuid, int device) {
    DEVICE(device);
    memset(uuid, setting("STAND_IN_MIG", 0) ? 0xfb : 0xfa, 16);
    uuid[15] = (unsigned char)physical(device);
    return OK;
}
API Result cuDeviceTotalMem_v2(size_t *bytes, int device) { DEVICE(device); *bytes = (size_t)setting("STAND_IN_MEMORY", DEFAULT_MEMORY); return OK; }
API Result cuDeviceGetPCIBusId(char *text, int room, int device) {
    DEVICE(device);
    if (room < 13) return INVALID_VALUE;
    snprintf(text, (size_t)room, "0000:%02X:00.0", 0xf0 + physical(device));
    return OK;
}
API Result cuDeviceCanAccessPeer(int *can, int device, int other) {
    DEVICE(device);
    if (physical(other) < 0) return INVALID_DEVICE;
    *can = device != other && !setting("STAND_IN_MIG", 0);
    return OK;
}
API Result cuDeviceGetAttribute(int *value, int attribute, int device) {
    DEVICE(device);
    int capability = (int)setting("STAND_IN_CC", 81);
    switch (attribute) {
        case 1: *value = MOST_THREADS; break;             /* MAX_THREADS_PER_BLOCK */
        case 8: *value = SHARED_BYTES; break;             /* MAX_SHARED_MEMORY_PER_BLOCK */
        case 10: *value = 32; break;                      /* WARP_SIZE */
        case 13: *value = 1500000; break;                 /* CLOCK_RATE, kHz */
        case 16: *value = (int)setting("STAND_IN_UNITS", 2); break; /* MULTIPROCESSOR_COUNT */
        case 20: *value = getenv("STAND_IN_EXCLUSIVE") ? 3 : 0; break; /* COMPUTE_MODE */
        case 32: *value = 0; break;                       /* ECC_ENABLED */
        case 36: *value = 1000000; break;                 /* MEMORY_CLOCK_RATE, kHz */
        case 37: *value = 64; break;                      /* GLOBAL_MEMORY_BUS_WIDTH */
        case 38: *value = 4 << 20; break;                 /* L2_CACHE_SIZE */
        case 39: *value = 2048; break;                    /* MAX_THREADS_PER_MULTIPROCESSOR */
        case 40: *value = 2; break;                       /* ASYNC_ENGINE_COUNT */
        case 75: *value = capability / 10; break;         /* COMPUTE_CAPABILITY_MAJOR */
        case 76: *value = capability % 10; break;         /* COMPUTE_CAPABILITY_MINOR */
        case 81: *value = 100 << 10; break;               /* MAX_SHARED_MEMORY_PER_MULTIPROCESSOR */
        case STAND_IN_ATTRIBUTE: *value = 1; break;       /* no real driver knows this number */
        default: return INVALID_VALUE;
    }
    return OK;
}

/* ------------------------------------------------------------ contexts */

static int taken_by_another(void) {
    static int held = -1;
    const char *path = getenv("STAND_IN_EXCLUSIVE");
    if (!path || !*path || held >= 0) return 0;
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file >= 0 && !flock(file, LOCK_EX | LOCK_NB)) { held = file; return 0; }
    if (file >= 0) close(file);
    return 1;
}

API Result cuDevicePrimaryCtxRetain(Context **context, int device) {
    DEVICE(device);
    if (taken_by_another()) return DEVICE_UNAVAILABLE;
    *context = &contexts[physical(device)];
    (*context)->kind = CONTEXT;
    (*context)->device = physical(device);
    return OK;
}
API Result cuDevicePrimaryCtxRelease_v2(int device) { DEVICE(device); return contexts[physical(device)].kind ? OK : INVALID_CONTEXT; }
API Result cuCtxSetCurrent(Context *context) {
    BEGIN;
    if (context && context->kind != CONTEXT) return INVALID_CONTEXT;
    current = context;
    return OK;
}
API Result cuCtxGetCurrent(Context **context) { BEGIN; *context = current; return OK; }
API Result cuCtxGetDevice(int *device) { IN_CONTEXT; *device = current->device; return OK; }
API Result cuCtxEnablePeerAccess(Context *other, unsigned flags) {
    IN_CONTEXT;
    if (flags) return INVALID_VALUE;
    if (!IS(other, CONTEXT) || other == current) return INVALID_CONTEXT;
    if (setting("STAND_IN_MIG", 0)) return 217; /* PEER_ACCESS_UNSUPPORTED */
    if (current->peers[other->device]) return PEER_ALREADY_ENABLED;
    current->peers[other->device] = 1;
    return OK;
}
API Result cuCtxSetLimit(int limit, size_t value) { (void)value; IN_CONTEXT; return limit >= 0 && limit <= 6 ? OK : INVALID_VALUE; }
API Result cuCtxResetPersistingL2Cache(void) { IN_CONTEXT; return OK; }

/* For tests alone: ends the sticky error of every device, as a new process would. */
API void standInRecover(void) {
    for (int i = 0; i < MOST_DEVICES; i++) {
        drain_all(&contexts[i]);
        contexts[i].error = OK;
        memset(contexts[i].peers, 0, sizeof contexts[i].peers);
    }
}

/* ------------------------------------------------------------ names and entry points */

API Result cuGetErrorName(Result result, const char **name) {
    static __thread char text[32];
    snprintf(text, sizeof text, "CUDA_ERROR_%d", result);
    *name = text;
    return OK;
}
API Result cuGetErrorString(Result result, const char **text) { return cuGetErrorName(result, text); }

/* A version above the driver's is an invalid value, as its manual says. */
API Result cuGetProcAddress_v2(const char *symbol, void **address, int version, uint64_t flags, int *status) {
    static const char *const suffixes[] = {"_v2", "_v3", "WithFlags", ""};
    static void *self;
    char name[128];
    Dl_info info;
    (void)flags;
    if (!self && dladdr((void *)cuInit, &info)) self = dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    *address = NULL;
    if (version > setting("STAND_IN_DRIVER", 13000)) {
        if (status) *status = 2;
        return INVALID_VALUE;
    }
    int newest = strcmp(symbol, "cuEventElapsedTime") || version >= 12080 ? 0 : 3; /* its second version came with CUDA 12.8 */
    for (int i = newest; i < 4 && !*address; i++) {
        snprintf(name, sizeof name, "%s%s", symbol, suffixes[i]);
        *address = dlsym(self, name);
    }
    if (status) *status = *address ? 0 : 1;
    return *address ? OK : NOT_FOUND;
}
API Result cuGetProcAddress(const char *symbol, void **address, int version, uint64_t flags) {
    return cuGetProcAddress_v2(symbol, address, version, flags, NULL);
}
/* NVRTC 13 asks for a private table; where the symbol is missing it takes what stands in its place, and faults. */
API Result cuGetExportTable(const void **table, const void *id) { (void)id; *table = NULL; return NOT_SUPPORTED; }
