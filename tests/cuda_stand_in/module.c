/* Modules and launches. PTX is translated by ptx.py and compiled; a cubin is looked up in a table of the PTX of the same compilation. */
#include "driver.h"
#include <dlfcn.h>
#include <elf.h>
#include <unistd.h>

/* The PTX version that came with a CUDA version: 8.x with 12.x (8.5 twice, with 12.5 and 12.6), 9.x with 13.x. */
static int newest_ptx(void) {
    int driver = (int)setting("STAND_IN_DRIVER", 13000), major = driver / 1000, minor = driver % 1000 / 10;
    return 10 * (major - 4) + minor - (major == 12 && minor > 5 ? 1 : 0);
}

static uint64_t hash_of(const void *data, size_t bytes) { /* FNV-1a */
    uint64_t hash = 1469598103934665603ull;
    for (size_t i = 0; i < bytes; i++) hash = (hash ^ ((const uint8_t *)data)[i]) * 1099511628211ull;
    return hash;
}

static const char *cache(void) { const char *folder = getenv("STAND_IN_CACHE"); return folder && *folder ? folder : "/tmp"; }

static size_t elf_bytes(const uint8_t *image) {
    const Elf64_Ehdr *head = (const Elf64_Ehdr *)image;
    size_t end = head->e_shoff + (size_t)head->e_shnum * head->e_shentsize, programs = head->e_phoff + (size_t)head->e_phnum * head->e_phentsize;
    return end > programs ? end : programs;
}

/* Text of a file, or NULL; the caller frees it. */
static char *text_of(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file) return NULL;
    fseek(file, 0, SEEK_END);
    long bytes = ftell(file);
    rewind(file);
    char *text = calloc(1, (size_t)bytes + 1);
    size_t got = fread(text, 1, (size_t)bytes, file);
    fclose(file);
    if (got == (size_t)bytes) return text;
    free(text);
    return NULL;
}

/* A library with the code of this PTX, from the cache or made now. The name is moved into place last: processes may do it at once. */
static void *library_of(const char *ptx) {
    char stem[512], path[600], command[4096];
    snprintf(stem, sizeof stem, "%s/%016llx", cache(), (unsigned long long)hash_of(ptx, strlen(ptx)));
    snprintf(path, sizeof path, "%s.so", stem);
    if (access(path, R_OK)) {
        const char *translate = getenv("STAND_IN_TRANSLATE");
        snprintf(command, sizeof command, "%s.%d.ptx", stem, getpid());
        FILE *file = fopen(command, "w");
        if (!file || !translate) { if (file) fclose(file); return NULL; }
        fputs(ptx, file);
        fclose(file);
        snprintf(command, sizeof command, "env -u LD_LIBRARY_PATH %s %s.%d.ptx %s", translate, stem, getpid(), path);
        int code = system(command);
        snprintf(command, sizeof command, "%s.%d.ptx", stem, getpid());
        unlink(command);
        if (code) return NULL;
    }
    return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

static Result load_ptx(Module **module, const char *text, int capability, int newest) {
    const char *version = strstr(text, ".version"), *target = strstr(text, ".target");
    int major, minor, architecture;
    if (!version || !target || sscanf(version, ".version %d.%d", &major, &minor) != 2 || sscanf(target, ".target sm_%d", &architecture) != 1)
        return INVALID_PTX;
    if (10 * major + minor > newest) return UNSUPPORTED_PTX_VERSION;
    if (architecture > capability) return NO_BINARY_FOR_GPU;
    void *library = library_of(text);
    if (!library) return INVALID_PTX;
    *module = malloc(sizeof **module);
    **module = (Module){MODULE, current, library};
    return OK;
}

/* Its ABI has a version: 7 with CUDA 12, 8 with CUDA 13; a cubin runs on its own major architecture, from its own minor one on.
 * Drivers of one major version take each other's cubins, so that the version of the PTX beside it does not count. */
static Result load_cubin(Module **module, const uint8_t *image, int capability) {
    char path[600];
    const Elf64_Ehdr *head = (const Elf64_Ehdr *)image;
    if (head->e_ident[EI_ABIVERSION] >= 8 && setting("STAND_IN_DRIVER", 13000) < 13000) return NO_BINARY_FOR_GPU;
    snprintf(path, sizeof path, "%s/%016llx.cubin.ptx", cache(), (unsigned long long)hash_of(image, elf_bytes(image)));
    char *text = text_of(path);
    if (!text) return NO_BINARY_FOR_GPU;
    const char *target = strstr(text, ".target");
    int architecture = 0;
    Result answer = INVALID_IMAGE;
    if (target && sscanf(target, ".target sm_%d", &architecture) == 1)
        answer = architecture / 10 == capability / 10 && architecture <= capability ? load_ptx(module, text, capability, 999) : NO_BINARY_FOR_GPU;
    free(text);
    return answer;
}

API Result cuModuleLoadData(Module **module, const void *image) {
    IN_CONTEXT;
    int capability = (int)setting("STAND_IN_CC", 81);
    if (!image) return INVALID_VALUE;
    if (!memcmp(image, ELFMAG, SELFMAG)) return load_cubin(module, image, capability);
    if (!memcmp(image, "\x50\xed\x55\xba", 4)) return NO_BINARY_FOR_GPU; /* a fat binary */
    return load_ptx(module, image, capability, newest_ptx());
}
API Result cuModuleUnload(Module *m) { IN_CONTEXT; if (!IS(m, MODULE)) return INVALID_HANDLE; drain_all(current); m->kind = 0; return OK; }
API Result cuModuleGetFunction(Function **function, Module *m, const char *name) {
    IN_CONTEXT;
    if (!IS(m, MODULE) || m->context != current) return INVALID_HANDLE;
    char symbol[300];
#define PART(prefix) (snprintf(symbol, sizeof symbol, prefix "_%s", name), dlsym(m->library, symbol))
    Code code = (Code)PART("run");
    if (!code) return NOT_FOUND;
    Function *f = calloc(1, sizeof *f);
    *f = (Function){.kind = FUNCTION, .module = m, .code = code};
    f->count = *(int *)PART("count");
    f->shared = *(int *)PART("shared");
    f->sizes = PART("sizes");
    f->offsets = PART("offsets");
    snprintf(f->name, sizeof f->name, "%s", name);
    *function = f;
    return OK;
}
static int loaded(Function *f) { return IS(f, FUNCTION) && IS(f->module, MODULE) && f->module->context == current; }
API Result cuFuncLoad(Function *f) { IN_CONTEXT; return loaded(f) ? OK : INVALID_HANDLE; }

/* A kernel that is given another device's memory, to which this device has no access, faults. */
static int out_of_reach(const Function *f, const uint8_t *parameters) {
    for (int i = 0; i < f->count; i++) {
        uint64_t address;
        if (f->sizes[i] != 8) continue;
        memcpy(&address, parameters + f->offsets[i], 8);
        Allocation *a = address & BIAS ? holding(address, 1) : NULL;
        if (a && a->context != current && !current->peers[a->context->device]) return 1;
    }
    return 0;
}

API Result cuLaunchKernel(Function *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, Stream *s,
                          void **parameters, void **extra) {
    IN_CONTEXT;
    if (!loaded(f) || !(s = stream_of(s))) return INVALID_HANDLE;
    uint64_t threads = (uint64_t)bx * by * bz;
    if (!gx || !gy || !gz || !threads || gx > 0x7fffffff || gy > 65535 || gz > 65535 || bz > 64 || threads > MOST_THREADS) return INVALID_VALUE;
    if (shared || f->shared > SHARED_BYTES || (f->count && !parameters)) return INVALID_VALUE; /* none of our kernels has dynamic shared memory */
    if (extra) return NOT_SUPPORTED; /* of this stand-in */
    size_t room = f->count ? (size_t)(f->offsets[f->count - 1] + f->sizes[f->count - 1]) : 1;
    uint8_t *held = calloc(1, room + 16);
    for (int i = 0; i < f->count; i++) memcpy(held + f->offsets[i], parameters[i], (size_t)f->sizes[i]);
    if (out_of_reach(f, held)) {
        free(held);
        current->error = ILLEGAL_ADDRESS;
        return OK; /* as every fault of a kernel: the next call tells */
    }
    return give(s, (Operation){.what = DO_KERNEL, .function = f, .held = held, .launch = {.grid = {gx, gy, gz}, .block = {bx, by, bz}}});
}
