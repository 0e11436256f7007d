/* A stand-in for NVIDIA's management library with one GPU: the real symbols, so that the real binding is exercised.
 *
 * Environment, read at every call:
 *   FAKE_NVML_INIT=n           nvmlInitWithFlags answers n
 *   FAKE_NVML_LOST=1           every call on the device answers "GPU is lost" (15)
 *   FAKE_NVML_FAIL=a:n,b:m     function or field a answers n, as in nvmlDeviceGetFanSpeed:3,186:2
 *   FAKE_NVML_THROTTLE=mask    clock event reasons, any base
 *   FAKE_NVML_POWER=mW FAKE_NVML_AVERAGE=mW FAKE_NVML_MEMORY_C=degrees FAKE_NVML_PIDS=1,2,self
 *   FAKE_NVML_LIMIT=mW         4294967295 is NVML's "not available"
 *   FAKE_NVML_CALLS=path       each call's name is appended to this file
 * Compiled with -DOLD_DRIVER, functions that came late are not there at all.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct { uint64_t total, free, used; } memory_t;
typedef struct { unsigned version; uint64_t total, reserved, free, used; } memory_v2_t;
typedef struct { unsigned gpu, memory; } utilization_t;
typedef struct { unsigned pid; uint64_t memory; unsigned gpu_instance, compute_instance; } process_t;
typedef union { double d; unsigned ui; unsigned long ul; unsigned long long ull; long long sll; int si; unsigned short us; } value_t;
typedef struct { uint32_t field, scope; int64_t timestamp, latency; unsigned type; int answer; value_t value; } field_t;

static const char UUID[] = "GPU-01234567-89ab-cdef-0123-456789abcdef";
static int gpu;

static unsigned long long setting(const char *name, unsigned long long other) {
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 0) : other;
}

static int failure(const char *name) {
    const char *calls = getenv("FAKE_NVML_CALLS");
    if (calls) {
        FILE *file = fopen(calls, "a");
        fprintf(file, "%s\n", name);
        fclose(file);
    }
    for (const char *at = getenv("FAKE_NVML_FAIL"); at && *at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        size_t length = strlen(name);
        if (!strncmp(at, name, length) && at[length] == ':') return atoi(at + length + 1);
    }
    return 0;
}

#define CALL                                                        \
    do {                                                            \
        if (getenv("FAKE_NVML_LOST")) return 15;                    \
        if (device != &gpu) return 2;                               \
        int fails = failure(__func__);                              \
        if (fails) return fails;                                    \
    } while (0)

int nvmlInitWithFlags(unsigned flags) { (void)flags; return (int)setting("FAKE_NVML_INIT", 0); }
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int error) { return error == 42 ? "Forty-two" : "Other"; }

static int text(char *to, unsigned size, const char *what) { snprintf(to, size, "%s", what); return 0; }

int nvmlSystemGetDriverVersion(char *to, unsigned size) { return text(to, size, "570.00.01"); }
int nvmlDeviceGetHandleByUUID(const char *uuid, void **device) { *device = &gpu; return strcmp(uuid, UUID) ? 6 : 0; }
int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **device) { *device = &gpu; return strcmp(bus, "0000:0f:00.0") ? 6 : 0; }
int nvmlDeviceGetVbiosVersion(void *device, char *to, unsigned size) { CALL; return text(to, size, "96.00.30.00.01"); }
int nvmlDeviceGetSerial(void *device, char *to, unsigned size) { CALL; return text(to, size, "1650000000001"); }

int nvmlDeviceGetPowerUsage(void *device, unsigned *mw) { CALL; *mw = (unsigned)setting("FAKE_NVML_AVERAGE", 300000); return 0; }
int nvmlDeviceGetTemperature(void *device, unsigned sensor, unsigned *c) { CALL; *c = sensor == 0 ? 54 : 0; return 0; }
int nvmlDeviceGetClockInfo(void *device, unsigned type, unsigned *mhz) { CALL; *mhz = type == 1 ? 1755 : type == 2 ? 3201 : 0; return 0; }
int nvmlDeviceGetMaxClockInfo(void *device, unsigned type, unsigned *mhz) { CALL; *mhz = type == 1 ? 1980 : type == 2 ? 3201 : 0; return 0; }
int nvmlDeviceGetUtilizationRates(void *device, utilization_t *u) { CALL; u->gpu = 87; u->memory = 40; return 0; }
int nvmlDeviceGetMemoryInfo(void *device, memory_t *m) { CALL; m->total = 80ULL << 30; m->used = 3ULL << 30; m->free = m->total - m->used; return 0; }
int nvmlDeviceGetCurrPcieLinkGeneration(void *device, unsigned *n) { CALL; *n = 5; return 0; }
int nvmlDeviceGetMaxPcieLinkGeneration(void *device, unsigned *n) { CALL; *n = 5; return 0; }
int nvmlDeviceGetCurrPcieLinkWidth(void *device, unsigned *n) { CALL; *n = 8; return 0; }
int nvmlDeviceGetMaxPcieLinkWidth(void *device, unsigned *n) { CALL; *n = 16; return 0; }
int nvmlDeviceGetEccMode(void *device, unsigned *now, unsigned *later) { CALL; *now = *later = 1; return 0; }
int nvmlDeviceGetTotalEccErrors(void *device, unsigned kind, unsigned counter, uint64_t *n) { CALL; *n = kind == 1 && counter == 0 ? 2 : 99; return 0; }
int nvmlDeviceGetFanSpeed(void *device, unsigned *percent) { CALL; *percent = 35; return 0; }
int nvmlDeviceGetEnforcedPowerLimit(void *device, unsigned *mw) { CALL; *mw = (unsigned)setting("FAKE_NVML_LIMIT", 700000); return 0; }

static int processes(unsigned *count, process_t *list) {
    unsigned found = 0, room = *count;
    for (const char *at = getenv("FAKE_NVML_PIDS"); at && *at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL, found++)
        if (list && found < room) list[found].pid = !strncmp(at, "self", 4) ? (unsigned)getpid() : (unsigned)atoi(at);
    *count = found;
    return found > room ? 7 : 0;
}
int nvmlDeviceGetComputeRunningProcesses_v2(void *device, unsigned *count, process_t *list) { CALL; return processes(count, list); }

int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, uint64_t *mask) { CALL; *mask = setting("FAKE_NVML_THROTTLE", 0); return 0; }

#ifndef OLD_DRIVER
int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, process_t *list) { CALL; return processes(count, list); }
int nvmlDeviceGetTotalEnergyConsumption(void *device, uint64_t *mj) { CALL; *mj = 123456789ULL; return 0; }
int nvmlDeviceGetCurrentClocksEventReasons(void *device, uint64_t *mask) { CALL; *mask = setting("FAKE_NVML_THROTTLE", 0); return 0; }
int nvmlDeviceGetMemoryInfo_v2(void *device, memory_v2_t *m) {
    CALL;
    if (m->version != 0x02000028) return 25;
    m->total = 80ULL << 30; m->reserved = 1ULL << 30; m->used = 2ULL << 30; m->free = m->total - m->reserved - m->used;
    return 0;
}
int nvmlDeviceGetFieldValues(void *device, int count, field_t *fields) {
    CALL;
    for (int i = 0; i < count; i++) {
        char name[16];
        snprintf(name, sizeof name, "%u", fields[i].field);
        fields[i].answer = failure(name);
        fields[i].type = 1;
        if (fields[i].answer) continue;
        if (fields[i].field == 186) fields[i].value.ui = (unsigned)setting("FAKE_NVML_POWER", 412345);
        else if (fields[i].field == 185) fields[i].value.ui = (unsigned)setting("FAKE_NVML_AVERAGE", 300000);
        else if (fields[i].field == 82) fields[i].value.ui = (unsigned)setting("FAKE_NVML_MEMORY_C", 71);
        else fields[i].answer = 2;
    }
    return 0;
}
#endif
