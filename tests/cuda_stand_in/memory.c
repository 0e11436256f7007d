/* Memory: each allocation ends at a page that nobody may touch and begins as 0xcd; copies know device, pinned and pageable memory. */
#include "driver.h"
#include <sys/mman.h>

enum { GUARD = 65536, PAGE = 4096, ALIGNED = 256, POISON = 0xcd };
static Allocation *allocations;

Allocation *holding(uint64_t address, size_t bytes) {
    Allocation *match = NULL;
    pthread_mutex_lock(&everything);
    for (Allocation *a = allocations; a && !match; a = a->next)
        if (address >= a->address && address + bytes <= a->address + a->bytes) match = a;
    pthread_mutex_unlock(&everything);
    return match;
}

static size_t up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

static Result allocate(uint64_t *address, size_t bytes, int on_host) {
    if (!address || !bytes) return INVALID_VALUE;
    if (!on_host && bytes > (size_t)setting("STAND_IN_MEMORY", DEFAULT_MEMORY) - current->used) return OUT_OF_MEMORY;
    size_t room = up(bytes, ALIGNED), mapped = up(room, PAGE) + 2 * GUARD;
    uint8_t *map = mmap(NULL, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED) return OUT_OF_MEMORY;
    if (mprotect(map + GUARD, mapped - 2 * GUARD, PROT_READ | PROT_WRITE)) { munmap(map, mapped); return OUT_OF_MEMORY; }
    uint8_t *start = map + mapped - GUARD - room;
    memset(start, POISON, room);
    Allocation *a = malloc(sizeof *a);
    *a = (Allocation){.address = (uint64_t)start ^ (on_host ? 0 : BIAS), .bytes = bytes, .mapped = mapped, .map = map, .context = current, .on_host = on_host};
    pthread_mutex_lock(&everything);
    a->next = allocations;
    allocations = a;
    if (!on_host) current->used += bytes;
    pthread_mutex_unlock(&everything);
    *address = a->address;
    return OK;
}

static Result release(uint64_t address, int on_host) {
    pthread_mutex_lock(&everything);
    Allocation **at = &allocations;
    while (*at && ((*at)->address != address || (*at)->on_host != on_host)) at = &(*at)->next;
    Allocation *gone = *at;
    if (gone) {
        *at = gone->next;
        if (!on_host) gone->context->used -= gone->bytes;
    }
    pthread_mutex_unlock(&everything);
    if (!gone) return INVALID_VALUE;
    munmap(gone->map, gone->mapped);
    free(gone);
    return OK;
}

API Result cuMemAlloc_v2(uint64_t *address, size_t bytes) { IN_CONTEXT; UNSAFE_IN_CAPTURE; return allocate(address, bytes, 0); }
API Result cuMemFree_v2(uint64_t address) { IN_CONTEXT; UNSAFE_IN_CAPTURE; drain_all(NULL); return release(address, 0); } /* waits for what may use it */
API Result cuMemHostAlloc(void **address, size_t bytes, unsigned flags) {
    IN_CONTEXT;
    UNSAFE_IN_CAPTURE;
    return flags > 7 ? INVALID_VALUE : allocate((uint64_t *)address, bytes, 1);
}
API Result cuMemFreeHost(void *address) { IN_CONTEXT; drain_all(NULL); return release((uint64_t)address, 1); }
API Result cuMemGetInfo_v2(size_t *available, size_t *total) {
    IN_CONTEXT;
    *total = (size_t)setting("STAND_IN_MEMORY", DEFAULT_MEMORY);
    *available = *total - current->used;
    return OK;
}

/* ------------------------------------------------------------ copies */

static int usable(uint64_t address, size_t bytes, int host) { return host ? !(address & BIAS) : (address & BIAS) && holding(address, bytes); }
static int on_this_device(uint64_t address, size_t bytes) { Allocation *a = holding(address, bytes); return a && a->context == current; }

/* Pageable memory has been read, or written, when the driver returns; in a capture it cannot be copied. */
static Result copy(uint64_t to, int to_host, uint64_t from, int from_host, size_t bytes, Stream *handle) {
    Stream *stream = stream_of(handle);
    if (!stream) return INVALID_HANDLE;
    if (!bytes) return OK;
    if (!usable(to, bytes, to_host) || !usable(from, bytes, from_host)) return INVALID_VALUE;
    int pageable = (to_host && !holding(to, bytes)) || (from_host && !holding(from, bytes));
    if (pageable && stream->capture) { stream->capture->invalid = 1; return CAPTURE_UNSUPPORTED; }
    Operation o = {.what = DO_COPY, .to = (uint8_t *)(to & ~BIAS), .from = (uint8_t *)(from & ~BIAS), .bytes = bytes};
    if (pageable && from_host) o.held = o.from = memcpy(malloc(bytes), o.from, bytes);
    Result answer = give(stream, o);
    if (!answer && pageable && to_host) drain(stream);
    return answer;
}

API Result cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t n, Stream *s) { IN_CONTEXT; return copy(to, 0, (uint64_t)from, 1, n, s); }
API Result cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t n, Stream *s) { IN_CONTEXT; return copy((uint64_t)to, 1, from, 0, n, s); }
API Result cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t n, Stream *s) {
    IN_CONTEXT;
    if (n && (!on_this_device(to, n) || !on_this_device(from, n))) return INVALID_VALUE;
    return copy(to, 0, from, 0, n, s);
}
API Result cuMemcpyPeerAsync(uint64_t to, Context *to_context, uint64_t from, Context *from_context, size_t n, Stream *s) {
    IN_CONTEXT;
    if (!IS(to_context, CONTEXT) || !IS(from_context, CONTEXT)) return INVALID_CONTEXT;
    Allocation *a = holding(to, n), *b = holding(from, n);
    if (!a || !b || a->context != to_context || b->context != from_context) return INVALID_VALUE;
    return copy(to, 0, from, 0, n, s);
}
API Result cuMemsetD8Async(uint64_t to, unsigned char value, size_t n, Stream *handle) {
    IN_CONTEXT;
    Stream *stream = stream_of(handle);
    if (!stream) return INVALID_HANDLE;
    if (n && !usable(to, n, 0)) return INVALID_VALUE;
    return give(stream, (Operation){.what = DO_SET, .to = (uint8_t *)(to & ~BIAS), .value = value, .bytes = n});
}
