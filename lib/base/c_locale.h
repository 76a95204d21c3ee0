/* The locale "C", for numbers in texts whatever the locale of the program is. Thread-safe. */
#ifndef COLLCTL_BASE_C_LOCALE_H
#define COLLCTL_BASE_C_LOCALE_H

#include <locale.h>

/* NULL: out of memory. The process keeps it. */
locale_t c_locale(void);

#endif
