/* Have fsync and fdatasync take SYNC_MICROSECONDS longer, as on a slower disk (LD_PRELOAD). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

static int later(const char *name, int fd)
{
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    const char *longer = getenv("SYNC_MICROSECONDS");

    usleep(longer ? (useconds_t)atoi(longer) : 0);
    return real(fd);
}

int fsync(int fd)
{
    return later("fsync", fd);
}

int fdatasync(int fd)
{
    return later("fdatasync", fd);
}
