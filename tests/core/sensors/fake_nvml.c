/* A stand-in for NVIDIA's management library with one GPU: the real symbols, so that the real binding is exercised.
 *
 * Environment, read at every call:
 *   FAKE_NVML_INIT=n           nvmlInitWithFlags answers n
 *   FAKE_NVML_LOST=1           every call on the device answers "GPU is lost" (15)
 *   FAKE_NVML_FAIL=a:n,b:m     function or field a answers n, as in nvmlDeviceGetFanSpeed:3,186:2
 *   FAKE_NVML_THROTTLE=mask    clock event reasons, any base
 *   FAKE_NVML_POWER=mW FAKE_NVML_AVERAGE=mW FAKE_NVML_MEMORY_C=degrees FAKE_NVML_PIDS=1,2,self
 *   FAKE_NVML_LIMIT=mW         4294967295 is NVML's "not available"
 *   FAKE_NVML_FIELDS=a:v,b@s:w field a (of scope s) has the value v, as 64 bits; a negative one as a signed 32
 *   FAKE_NVML_XIDS=79,48       events that wait to be taken; the set answers a time-out behind them
 *   FAKE_NVML_GPM=1            the device has performance monitoring; metric n answers n percent, or n MiB/s
 *   FAKE_NVML_DRIVER=version
 *   FAKE_NVML_STATE=path       clock and power cap that were set, kept from process to process
 *   FAKE_NVML_CALLS=path       each call's name is appended to this file
 * Compiled with -DOLD_DRIVER, functions that came late are not there at all; with -DLIKE_A_DRIVER it cannot be told from NVIDIA's.
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
static const char SLICE_UUID[] = "MIG-01234567-89ab-cdef-0123-456789abcdef"; /* a slice of the GPU: it has memory and processes of its own */
static int gpu, slice;

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

#ifndef LIKE_A_DRIVER
int hotlapStandIn = 1; /* no library of NVIDIA's has it: tests refuse to set anything without */
#endif
int nvmlInitWithFlags(unsigned flags) { (void)flags; return (int)setting("FAKE_NVML_INIT", 0); }
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int error) { return error == 42 ? "Forty-two" : "Other"; }

static int text(char *to, unsigned size, const char *what) { snprintf(to, size, "%s", what); return 0; }

int nvmlSystemGetDriverVersion(char *to, unsigned size) { return text(to, size, getenv("FAKE_NVML_DRIVER") ? getenv("FAKE_NVML_DRIVER") : "570.00.01"); }
int nvmlDeviceGetHandleByUUID(const char *uuid, void **device) {
    *device = strcmp(uuid, SLICE_UUID) ? &gpu : &slice;
    return strcmp(uuid, UUID) && strcmp(uuid, SLICE_UUID) ? 6 : 0;
}
int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(void *part, void **device) { *device = &gpu; return part == &slice ? 0 : 2; }
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
int nvmlDeviceGetTotalEccErrors(void *device, unsigned kind, unsigned counter, uint64_t *n) { CALL; *n = 2 * kind + 10 * counter; return 0; }
int nvmlDeviceGetFanSpeed(void *device, unsigned *percent) { CALL; *percent = 35; return 0; }
int nvmlDeviceGetEnforcedPowerLimit(void *device, unsigned *mw) { CALL; *mw = (unsigned)setting("FAKE_NVML_LIMIT", 700000); return 0; }

static int processes(unsigned *count, process_t *list) {
    unsigned found = 0, room = *count;
    for (const char *at = getenv("FAKE_NVML_PIDS"); at && *at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL, found++)
        if (list && found < room) list[found].pid = !strncmp(at, "self", 4) ? (unsigned)getpid() : (unsigned)atoi(at);
    *count = found;
    return found > room ? 7 : 0;
}
static int processes_of_slice(unsigned *count) { *count = 0; return 0; }
int nvmlDeviceGetComputeRunningProcesses_v2(void *device, unsigned *count, process_t *list) {
    if (device == &slice) return processes_of_slice(count);
    CALL;
    return processes(count, list);
}

int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, uint64_t *mask) { CALL; *mask = setting("FAKE_NVML_THROTTLE", 0); return 0; }

int nvmlDeviceGetTemperatureThreshold(void *device, unsigned which, unsigned *c) {
    CALL;
    if (which > 3) return 3;
    *c = (unsigned[]){95, 92, 105, 87}[which];
    return 0;
}
int nvmlDeviceGetMarginTemperature(void *device, int *margin) { CALL; margin[1] = 36; return 0; } /* after the version */
int nvmlDeviceGetPcieReplayCounter(void *device, unsigned *n) { CALL; *n = 7; return 0; }

typedef struct { void *device; unsigned long long type, data; unsigned gpu_instance, compute_instance; } event_t;
static int events, taken;
int nvmlEventSetCreate(void **set) { *set = &events; return failure(__func__); }
int nvmlEventSetFree(void *set) { (void)set; return 0; }
int nvmlDeviceRegisterEvents(void *device, unsigned long long types, void *set) { CALL; return set == &events && types == 8 ? 0 : 2; }
int nvmlEventSetWait_v2(void *set, event_t *event, unsigned milliseconds) {
    if (set != &events || milliseconds) return 2;
    int fails = failure(__func__);
    if (fails) return fails;
    int i = 0;
    for (const char *at = getenv("FAKE_NVML_XIDS"); at && *at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (i++ == taken) {
            taken++;
            event->device = &gpu; event->type = 8; event->data = strtoull(at, NULL, 0);
            return 0;
        }
    return 10;
}

/* Settings: what stands is kept in the file FAKE_NVML_STATE as "clock power", so that processes see each other's; clock 0 is no lock. */
static void state(unsigned *mhz, unsigned *mw, int keep) {
    const char *name = getenv("FAKE_NVML_STATE");
    FILE *file = name ? fopen(name, keep ? "w" : "r") : NULL;
    if (!keep) { *mhz = 0; *mw = 700000; }
    if (!file) return;
    if (keep) fprintf(file, "%u %u\n", *mhz, *mw);
    else if (fscanf(file, "%u %u", mhz, mw) != 2) *mhz = 0;
    fclose(file);
}
int nvmlDeviceGetPowerManagementLimitConstraints(void *device, unsigned *least, unsigned *most) { CALL; *least = 200000; *most = 700000; return 0; }
int nvmlDeviceGetPowerManagementDefaultLimit(void *device, unsigned *mw) { CALL; *mw = 700000; return 0; }
int nvmlDeviceGetPowerManagementLimit(void *device, unsigned *mw) { CALL; unsigned mhz; state(&mhz, mw, 0); return 0; }
int nvmlDeviceGetSupportedMemoryClocks(void *device, unsigned *count, unsigned *mhz) { CALL; if (*count < 2) { *count = 2; return 7; } mhz[0] = 3201; mhz[1] = 1593; return 0; }
int nvmlDeviceGetSupportedGraphicsClocks(void *device, unsigned memory, unsigned *count, unsigned *mhz) {
    CALL;
    if (memory != 3201) return 2;
    if (*count < 3) { *count = 3; return 7; }
    mhz[0] = 1980; mhz[1] = 1200; mhz[2] = 345;
    return 0;
}
int nvmlDeviceSetGpuLockedClocks(void *device, unsigned low, unsigned high) {
    CALL;
    unsigned mhz, mw;
    if (low != high) return 2;
    state(&mhz, &mw, 0); mhz = high; state(&mhz, &mw, 1);
    return 0;
}
int nvmlDeviceResetGpuLockedClocks(void *device) { CALL; unsigned mhz, mw; state(&mhz, &mw, 0); mhz = 0; state(&mhz, &mw, 1); return 0; }
int nvmlDeviceSetPowerManagementLimit(void *device, unsigned want) { CALL; unsigned mhz, mw; state(&mhz, &mw, 0); mw = want; state(&mhz, &mw, 1); return 0; }

#ifndef OLD_DRIVER
typedef struct { unsigned id; int answer; double value; const char *name, *longer, *unit; } metric_t;
typedef struct { unsigned version, count; void *before, *after; metric_t metrics[]; } metrics_t;
typedef struct { unsigned version, supported; } support_t;
static unsigned long long sampled;
int nvmlGpmQueryDeviceSupport(void *device, support_t *s) { CALL; s->supported = (unsigned)setting("FAKE_NVML_GPM", 0); return s->version == 1 ? 0 : 25; }
int nvmlGpmSampleAlloc(void **sample) { *sample = calloc(1, sizeof sampled); return 0; }
int nvmlGpmSampleFree(void *sample) { free(sample); return 0; }
int nvmlGpmSampleGet(void *device, void *sample) { CALL; *(unsigned long long *)sample = ++sampled; return 0; }
int nvmlGpmMetricsGet(metrics_t *m) {
    if (m->version != 1) return 25;
    if (*(unsigned long long *)m->before + 1 != *(unsigned long long *)m->after) return 2; /* the later sample must come second */
    for (unsigned i = 0; i < m->count; i++) {
        char name[16];
        snprintf(name, sizeof name, "gpm%u", m->metrics[i].id);
        m->metrics[i].answer = failure(name);
        m->metrics[i].value = m->metrics[i].id;
    }
    return 0;
}
static int given(field_t *field) {
    for (const char *at = getenv("FAKE_NVML_FIELDS"); at && *at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        char *end;
        if (strtoul(at, &end, 10) != field->field) continue;
        unsigned long scope = *end == '@' ? strtoul(end + 1, &end, 10) : 0;
        if (scope != field->scope || *end != ':') continue;
        if (end[1] == '-') { field->type = 5; field->value.si = atoi(end + 1); }
        else { field->type = 3; field->value.ull = strtoull(end + 1, NULL, 10); }
        return 1;
    }
    return 0;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, process_t *list) {
    if (device == &slice) return processes_of_slice(count);
    CALL;
    return processes(count, list);
}
int nvmlDeviceGetTotalEnergyConsumption(void *device, uint64_t *mj) { CALL; *mj = 123456789ULL; return 0; }
int nvmlDeviceGetCurrentClocksEventReasons(void *device, uint64_t *mask) { CALL; *mask = setting("FAKE_NVML_THROTTLE", 0); return 0; }
int nvmlDeviceGetMemoryInfo_v2(void *device, memory_v2_t *m) {
    if (device == &slice) { m->total = 10ULL << 30; m->used = 1ULL << 29; return 0; }
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
        if (fields[i].answer || given(&fields[i])) continue;
        if (fields[i].field == 186) fields[i].value.ui = (unsigned)setting("FAKE_NVML_POWER", 412345);
        else if (fields[i].field == 185) fields[i].value.ui = (unsigned)setting("FAKE_NVML_AVERAGE", 300000);
        else if (fields[i].field == 82) fields[i].value.ui = (unsigned)setting("FAKE_NVML_MEMORY_C", 71);
        else fields[i].answer = 2;
    }
    return 0;
}
#endif
