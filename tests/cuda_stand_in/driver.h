/* A stand-in for NVIDIA's driver library, for tests on a machine without a GPU: it exports the driver's real symbols, so that the real
 * binding, the real NVRTC and the product's whole CUDA path run. A kernel is PTX; ptx.py and gcc make code for this processor of it.
 * Streams are threads, an event holds the time at which its stream reached it, a graph is the list of what was captured.
 * What a driver refuses is refused; README.md lists the rules, test_cuda_stand_in.py breaks each of them.
 *
 * Environment, read at each call:
 *   STAND_IN_DEVICES=n     devices; unset or 0: the driver answers "no device"
 *   STAND_IN_CC=81         compute capability times ten         STAND_IN_DRIVER=13000    version of the driver
 *   STAND_IN_MEMORY=bytes  of a device (2 GiB)                  STAND_IN_UNITS=2         multiprocessors
 *   STAND_IN_MIG=1         the device is a slice                STAND_IN_EXCLUSIVE=path  exclusive mode: one process holds this file's lock
 *   STAND_IN_FAIL=cuMemAlloc:2@3,...   call 3 and later of cuMemAlloc answer 2 (without @: all calls; with ! for @: call 3 alone)
 *   STAND_IN_CALLS=path    a file to which the name of each call is written
 *   STAND_IN_CACHE=folder  compiled kernels, and PTX of cubins   STAND_IN_TRANSLATE=command  that makes a library of PTX */
#ifndef DRIVER_H
#define DRIVER_H
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int Result;
enum {
    OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, DEVICE_UNAVAILABLE = 46, NO_DEVICE = 100, INVALID_DEVICE = 101,
    INVALID_IMAGE = 200, INVALID_CONTEXT = 201, NO_BINARY_FOR_GPU = 209, INVALID_PTX = 218, UNSUPPORTED_PTX_VERSION = 222,
    INVALID_HANDLE = 400, NOT_FOUND = 500, NOT_READY = 600, ILLEGAL_ADDRESS = 700, PEER_ALREADY_ENABLED = 704, LAUNCH_FAILED = 719,
    NOT_SUPPORTED = 801, CAPTURE_UNSUPPORTED = 900, CAPTURE_INVALIDATED = 901, CAPTURE_UNMATCHED = 903, CAPTURE_UNJOINED = 904,
    CAPTURE_ISOLATION = 905, CAPTURED_EVENT = 907, CAPTURE_WRONG_THREAD = 908
};
enum { MOST_DEVICES = 8, MOST_THREADS = 1024, SHARED_BYTES = 49152, STAND_IN_ATTRIBUTE = 0x484F5450 };
enum { DISABLE_TIMING = 2, CAPTURE_GLOBAL = 0, CAPTURE_THREAD_LOCAL = 1, CAPTURE_RELAXED = 2 };
#define BIAS (1ull << 56) /* device addresses carry it, so that a host that follows one faults, and a kernel that follows a host's */
#define DEFAULT_MEMORY (2l << 30)
#define API __attribute__((visibility("default")))

/* The kind of each object stands in its first word. It is cleared when the object is destroyed; the memory stays, so a stale handle is known. */
enum Kind { CONTEXT = 0xc0de01, MODULE, FUNCTION, EVENT, STREAM, GRAPH, EXECUTABLE };
#define IS(object, kind_) ((object) && (object)->kind == (kind_))

typedef struct Context { int kind, device, error; size_t used; int peers[MOST_DEVICES]; } Context;

typedef struct Allocation {
    uint64_t address;
    size_t bytes, mapped;
    void *map;
    Context *context;
    int on_host;
    struct Allocation *next;
} Allocation;

/* What ptx.py makes of a kernel: its code, and the sizes and offsets of its parameters. */
typedef struct { uint32_t grid[3], block[3]; uint8_t *shared; int *fault; } Launch;
typedef void (*Code)(const uint8_t *parameters, const Launch *);
typedef struct { int kind; Context *context; void *library; } Module;
typedef struct { int kind; Module *module; Code code; int count, shared; const int *sizes, *offsets; char name[256]; } Function;

struct Stream;
struct Graph;
typedef struct Event {
    int kind;
    Context *context;
    unsigned flags;
    uint64_t recorded, reached; /* how often it was recorded, and up to which of these the stream has come */
    double at_s;
    struct Graph *graph;    /* last recorded in this capture … */
    struct Stream *stream;  /* … on this stream … */
    uint64_t position;      /* … after so many operations of it */
} Event;

typedef enum { DO_KERNEL, DO_COPY, DO_SET, DO_RECORD, DO_WAIT, DO_GRAPH } What;
typedef struct Operation {
    What what;
    struct Operation *next;
    Context *context;
    Function *function;
    Launch launch;
    uint8_t *held; /* parameters of a launch, or the bytes of pageable memory; freed with the operation */
    uint8_t *to, *from;
    size_t bytes;
    int value;
    Event *event;
    uint64_t generation;
    struct Graph *graph;
} Operation;

typedef struct Graph {
    int kind, invalid, ended, mode, count, room;
    pthread_t thread;
    Operation *operations;
    struct Stream *origin;
} Graph;

typedef struct Stream {
    int kind;
    Context *context;
    int running; /* has a thread */
    pthread_mutex_t lock;
    pthread_cond_t change;
    Operation *first, *last;
    uint64_t given, done;
    Graph *capture;
    uint64_t captured, joined; /* operations given to the capture, and how many of them the origin waits for */
    struct Stream *next;
} Stream;

extern __thread Context *current;
extern pthread_mutex_t everything;
extern Stream *streams;
extern Graph *capturing;

long setting(const char *name, long otherwise);
Result begin(const char *name);      /* injected faults, a fork, cuInit */
Result in_context(const char *name); /* the same, a current context and its sticky error */
#define BEGIN do { Result begin_ = begin(__func__); if (begin_) return begin_; } while (0)
#define IN_CONTEXT do { Result begin_ = in_context(__func__); if (begin_) return begin_; } while (0)
/* Calls that a capture that is not relaxed forbids. */
#define UNSAFE_IN_CAPTURE do { if (forbidden()) return CAPTURE_UNSUPPORTED; } while (0)
int forbidden(void);

double now_s(void);
Allocation *holding(uint64_t address, size_t bytes);
Stream *stream_of(Stream *handle);
void drain(Stream *);
void drain_all(Context *);
Result give(Stream *, Operation);
int faulted(int number); /* a signal of a kernel's thread: back to the stream */
#endif
