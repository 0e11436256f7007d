/* Streams, each a thread that works off what it was given, and events. */
#include "driver.h"
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <time.h>

Stream *streams;
static Stream *defaults[MOST_DEVICES];
static pthread_mutex_t events = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t reached = PTHREAD_COND_INITIALIZER;
static __thread sigjmp_buf *rescue;
static struct sigaction before[NSIG];
static const int FAULTS[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
enum { FAULT_KINDS = sizeof FAULTS / sizeof *FAULTS, IDLE_S = 2 };

double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ------------------------------------------------------------ what a stream does */

static void on_fault(int number) {
    if (rescue) siglongjmp(*rescue, number);
    sigaction(number, &before[number], NULL); /* not a kernel's: as if this library were not here */
    raise(number);
}

static void run_kernel(Operation *o) {
    static __thread uint8_t *shared;
    int parted = 0;
    sigjmp_buf here;
    if (!shared) shared = aligned_alloc(256, SHARED_BYTES);
    memset(shared, 0xcd, (size_t)o->function->shared);
    o->launch.shared = shared;
    o->launch.fault = &parted;
    rescue = &here;
    if (sigsetjmp(here, 1)) o->context->error = ILLEGAL_ADDRESS;
    else o->function->code(o->held, &o->launch);
    rescue = NULL;
    if (parted) o->context->error = LAUNCH_FAILED; /* threads of a block wait at different barriers */
}

static void run(Operation *o) {
    if (o->what == DO_RECORD) {
        pthread_mutex_lock(&events);
        o->event->at_s = now_s();
        o->event->reached = o->generation;
        pthread_cond_broadcast(&reached);
        pthread_mutex_unlock(&events);
    } else if (o->what == DO_WAIT) {
        pthread_mutex_lock(&events);
        while (o->event->reached < o->generation) pthread_cond_wait(&reached, &events);
        pthread_mutex_unlock(&events);
    } else if (o->context->error) {
        return; /* nothing runs behind a sticky error */
    } else if (o->what == DO_KERNEL) {
        run_kernel(o);
    } else if (o->what == DO_COPY) {
        memmove(o->to, o->from, o->bytes);
    } else if (o->what == DO_SET) {
        memset(o->to, o->value, o->bytes);
    } else {
        for (int i = 0; i < o->graph->count; i++) run(&o->graph->operations[i]);
    }
}

/* Ends when it has had nothing to do for a while: tests leave many streams behind. */
static void *work(void *given) {
    Stream *s = given;
    for (;;) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += IDLE_S;
        pthread_mutex_lock(&s->lock);
        while (!s->first && pthread_cond_timedwait(&s->change, &s->lock, &until) != ETIMEDOUT) continue;
        if (!s->first) {
            s->running = 0;
            pthread_mutex_unlock(&s->lock);
            return NULL;
        }
        Operation *o = s->first;
        pthread_mutex_unlock(&s->lock);
        run(o);
        pthread_mutex_lock(&s->lock);
        s->first = o->next;
        if (!s->first) s->last = NULL;
        s->done++;
        pthread_cond_broadcast(&s->change);
        pthread_mutex_unlock(&s->lock);
        free(o->held);
        free(o);
    }
}

/* Under the stream's lock. */
static void start(Stream *s) {
    sigset_t mask, old; /* signals to the program are not this thread's */
    pthread_t thread;
    sigfillset(&mask);
    for (int i = 0; i < FAULT_KINDS; i++) sigdelset(&mask, FAULTS[i]);
    pthread_sigmask(SIG_BLOCK, &mask, &old);
    if (pthread_create(&thread, NULL, work, s)) abort();
    pthread_detach(thread);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    s->running = 1;
}

static void take_faults(void) {
    static int taken;
    if (taken++) return;
    struct sigaction action = {.sa_handler = on_fault, .sa_flags = SA_NODEFER};
    for (int i = 0; i < FAULT_KINDS; i++) sigaction(FAULTS[i], &action, &before[FAULTS[i]]);
}

static Stream *new_stream(Context *context) {
    take_faults();
    Stream *s = calloc(1, sizeof *s);
    s->kind = STREAM;
    s->context = context;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->change, NULL);
    pthread_mutex_lock(&everything);
    s->next = streams;
    streams = s;
    pthread_mutex_unlock(&everything);
    return s;
}

Stream *stream_of(Stream *handle) {
    if ((uintptr_t)handle > 2) return IS(handle, STREAM) && handle->context == current ? handle : NULL;
    if (!defaults[current->device]) defaults[current->device] = new_stream(current);
    return defaults[current->device];
}

void drain(Stream *s) {
    pthread_mutex_lock(&s->lock);
    uint64_t until = s->given;
    while (s->done < until) pthread_cond_wait(&s->change, &s->lock);
    pthread_mutex_unlock(&s->lock);
}

void drain_all(Context *context) { for (Stream *s = streams; s; s = s->next) if (!context || s->context == context) drain(s); }

Result give(Stream *s, Operation o) {
    o.context = s->context;
    if (s->capture) {
        Graph *g = s->capture;
        if (g->invalid) { free(o.held); return CAPTURE_INVALIDATED; }
        if (g->count == g->room) g->operations = realloc(g->operations, (size_t)(g->room = g->room ? 2 * g->room : 64) * sizeof o);
        g->operations[g->count++] = o;
        s->captured++;
        return OK;
    }
    Operation *queued = malloc(sizeof o);
    *queued = o;
    queued->next = NULL;
    pthread_mutex_lock(&s->lock);
    if (s->last) s->last->next = queued;
    else s->first = queued;
    s->last = queued;
    s->given++;
    if (!s->running) start(s);
    pthread_cond_broadcast(&s->change);
    pthread_mutex_unlock(&s->lock);
    return OK;
}

/* ------------------------------------------------------------ streams */

API Result cuStreamCreate(Stream **stream, unsigned flags) {
    IN_CONTEXT;
    if (flags > 1) return INVALID_VALUE;
    *stream = new_stream(current);
    return OK;
}
API Result cuStreamDestroy_v2(Stream *s) {
    IN_CONTEXT;
    if (!IS(s, STREAM)) return INVALID_HANDLE;
    drain(s);
    s->kind = 0;
    return OK;
}
API Result cuStreamQuery(Stream *s) {
    IN_CONTEXT;
    if (!(s = stream_of(s))) return INVALID_HANDLE;
    if (s->capture) { s->capture->invalid = 1; return CAPTURE_UNSUPPORTED; }
    return s->done < s->given ? NOT_READY : s->context->error;
}
API Result cuStreamSynchronize(Stream *s) {
    IN_CONTEXT;
    if (!(s = stream_of(s))) return INVALID_HANDLE;
    if (s->capture) { s->capture->invalid = 1; return CAPTURE_UNSUPPORTED; }
    drain(s);
    return s->context->error;
}
API Result cuCtxSynchronize(void) {
    IN_CONTEXT;
    for (Stream *s = streams; s; s = s->next)
        if (s->context == current && s->capture) { s->capture->invalid = 1; return CAPTURE_UNSUPPORTED; }
    drain_all(current);
    return current->error;
}

/* ------------------------------------------------------------ events */

API Result cuEventCreate(Event **event, unsigned flags) {
    IN_CONTEXT;
    if (flags > 7) return INVALID_VALUE;
    *event = calloc(1, sizeof **event);
    (*event)->kind = EVENT;
    (*event)->context = current;
    (*event)->flags = flags;
    return OK;
}
API Result cuEventDestroy_v2(Event *e) { BEGIN; if (!IS(e, EVENT)) return INVALID_HANDLE; e->kind = 0; return OK; }
API Result cuEventRecord(Event *e, Stream *s) {
    IN_CONTEXT;
    if (!IS(e, EVENT) || !(s = stream_of(s)) || s->context != e->context) return INVALID_HANDLE;
    if (s->capture) {
        if (s->capture->invalid) return CAPTURE_INVALIDATED;
        e->graph = s->capture;
        e->stream = s;
        e->position = s->captured;
        return OK;
    }
    e->graph = NULL;
    pthread_mutex_lock(&events);
    uint64_t generation = ++e->recorded;
    pthread_mutex_unlock(&events);
    return give(s, (Operation){.what = DO_RECORD, .event = e, .generation = generation});
}

/* An event of a capture takes the stream that waits for it into the capture; one from outside cannot be waited for in it. */
static Result wait_in_capture(Stream *s, Event *e) {
    if (e->graph->ended) return CAPTURED_EVENT;
    if (s->capture && s->capture != e->graph) return CAPTURE_ISOLATION;
    if (!s->capture) { s->capture = e->graph; s->captured = s->joined = 0; }
    else if (s == s->capture->origin && e->stream != s && e->position > e->stream->joined) e->stream->joined = e->position;
    if (s != s->capture->origin && !s->captured) s->captured = 1; /* the dependency itself: it has to be joined as well */
    return OK;
}
API Result cuStreamWaitEvent(Stream *s, Event *e, unsigned flags) {
    IN_CONTEXT;
    if (flags > 1) return INVALID_VALUE;
    if (!IS(e, EVENT) || !(s = stream_of(s))) return INVALID_HANDLE;
    if (e->graph) return wait_in_capture(s, e);
    if (s->capture) return CAPTURE_ISOLATION;
    pthread_mutex_lock(&events);
    uint64_t generation = e->recorded;
    pthread_mutex_unlock(&events);
    return give(s, (Operation){.what = DO_WAIT, .event = e, .generation = generation});
}
API Result cuEventQuery(Event *e) {
    IN_CONTEXT;
    if (!IS(e, EVENT)) return INVALID_HANDLE;
    if (e->graph) return CAPTURED_EVENT;
    return e->reached < e->recorded ? NOT_READY : e->context->error;
}
API Result cuEventSynchronize(Event *e) {
    IN_CONTEXT;
    if (!IS(e, EVENT)) return INVALID_HANDLE;
    if (e->graph) { e->graph->invalid = 1; return CAPTURED_EVENT; }
    pthread_mutex_lock(&events);
    uint64_t generation = e->recorded;
    while (e->reached < generation) pthread_cond_wait(&reached, &events);
    pthread_mutex_unlock(&events);
    return e->context->error;
}
static Result elapsed(float *ms, Event *a, Event *b) {
    if (!IS(a, EVENT) || !IS(b, EVENT) || (a->flags | b->flags) & DISABLE_TIMING || a->context != b->context) return INVALID_HANDLE;
    if (a->graph || b->graph) return CAPTURED_EVENT;
    if (!a->recorded || !b->recorded) return INVALID_HANDLE;
    if (a->reached < a->recorded || b->reached < b->recorded) return NOT_READY;
    *ms = (float)((b->at_s - a->at_s) * 1e3);
    return OK;
}
API Result cuEventElapsedTime(float *ms, Event *a, Event *b) { IN_CONTEXT; return elapsed(ms, a, b); }
API Result cuEventElapsedTime_v2(float *ms, Event *a, Event *b) { IN_CONTEXT; return elapsed(ms, a, b); }
