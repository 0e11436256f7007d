/* How the elements of an array are spread over work-items, for every kernel that says EACH(i, ID, n). BLOCKED (`Layout.defines`): each work-item
   owns a contiguous stretch, as CPUs want it; else neighbours read neighbouring addresses, as GPUs do. */
#ifdef BLOCKED
#define ME(p) ID
#define FROM(me, n) ((ulong)(me) * (n) / ITEMS) /* shares that differ by one at most */
#define UNTIL(me, n) (((ulong)(me) + 1ul) * (n) / ITEMS)
#define STEP 1ul
#else
#define ME(p) ((ID + (ulong)(p) * 61ul * GROUP_SIZE) % ITEMS) /* another part in each pass: private caches are missed */
#define FROM(me, n) (me)
#define UNTIL(me, n) (n)
#define STEP ITEMS
#endif
#define EACH(i, me, n) for (ulong i = FROM(me, n), i##_end = UNTIL(me, n); i < i##_end; i += STEP)
