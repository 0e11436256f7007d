/* Capture of streams into graphs, and their replay. */
#include "driver.h"

Graph *capturing; /* the capture that was begun last */

/* A capture that is not relaxed forbids calls that could change what it records: of any thread, or (thread-local) of its own. */
int forbidden(void) {
    Graph *g = capturing;
    if (!g || g->ended || g->mode == CAPTURE_RELAXED) return 0;
    if (g->mode == CAPTURE_THREAD_LOCAL && !pthread_equal(g->thread, pthread_self())) return 0;
    g->invalid = 1;
    return 1;
}

API Result cuStreamBeginCapture_v2(Stream *s, int mode) {
    IN_CONTEXT;
    if ((uintptr_t)s <= 2) return CAPTURE_UNSUPPORTED; /* the default stream cannot be captured */
    if (!(s = stream_of(s))) return INVALID_HANDLE;
    if (s->capture || mode < CAPTURE_GLOBAL || mode > CAPTURE_RELAXED) return INVALID_VALUE;
    Graph *g = calloc(1, sizeof *g);
    *g = (Graph){.kind = GRAPH, .mode = mode, .thread = pthread_self(), .origin = s};
    s->capture = capturing = g;
    s->captured = s->joined = 0;
    return OK;
}

API Result cuStreamEndCapture(Stream *s, Graph **graph) {
    IN_CONTEXT;
    if (!(s = stream_of(s))) return INVALID_HANDLE;
    Graph *g = s->capture;
    if (!g || g->origin != s) return CAPTURE_UNMATCHED;
    if (g->mode != CAPTURE_RELAXED && !pthread_equal(g->thread, pthread_self())) return CAPTURE_WRONG_THREAD;
    int unjoined = 0;
    for (Stream *other = streams; other; other = other->next)
        if (other->capture == g && other != s) {
            unjoined |= other->joined < other->captured;
            other->capture = NULL;
        }
    s->capture = NULL;
    g->ended = 1;
    *graph = NULL;
    if (g->invalid) return CAPTURE_INVALIDATED;
    if (unjoined) return CAPTURE_UNJOINED;
    *graph = g;
    return OK;
}
API Result cuStreamIsCapturing(Stream *s, int *status) {
    IN_CONTEXT;
    if (!(s = stream_of(s))) return INVALID_HANDLE;
    *status = s->capture ? 1 + (s->capture->invalid != 0) : 0;
    return OK;
}

API Result cuGraphInstantiateWithFlags(Graph **executable, Graph *g, unsigned long long flags) {
    IN_CONTEXT;
    if (!IS(g, GRAPH) || flags > 15) return INVALID_VALUE;
    size_t bytes = (size_t)g->count * sizeof(Operation);
    Graph *copy = malloc(sizeof *copy);
    *copy = *g;
    copy->kind = EXECUTABLE;
    copy->operations = malloc(bytes + 1);
    if (bytes) memcpy(copy->operations, g->operations, bytes);
    *executable = copy;
    return OK;
}
API Result cuGraphDestroy(Graph *g) { BEGIN; if (!IS(g, GRAPH)) return INVALID_VALUE; g->kind = 0; return OK; }
API Result cuGraphExecDestroy(Graph *g) {
    BEGIN;
    if (!IS(g, EXECUTABLE)) return INVALID_VALUE;
    drain_all(NULL);
    g->kind = 0;
    return OK;
}
API Result cuGraphUpload(Graph *g, Stream *s) { IN_CONTEXT; if (!stream_of(s)) return INVALID_HANDLE; return IS(g, EXECUTABLE) ? OK : INVALID_VALUE; }
API Result cuGraphLaunch(Graph *g, Stream *s) {
    IN_CONTEXT;
    if (!(s = stream_of(s))) return INVALID_HANDLE;
    if (!IS(g, EXECUTABLE)) return INVALID_VALUE;
    if (s->capture) { s->capture->invalid = 1; return CAPTURE_UNSUPPORTED; } /* of this stand-in: a driver makes a child of it */
    return give(s, (Operation){.what = DO_GRAPH, .graph = g});
}
