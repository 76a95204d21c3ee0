/* The version of the program and of the library. */
#ifndef COLLCTL_BASE_VERSION_H
#define COLLCTL_BASE_VERSION_H

#define COLLCTL_VERSION "0.1.0"

#endif
