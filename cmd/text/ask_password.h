/* Asking the user for a password. */
#ifndef COLLCTL_CMD_TEXT_ASK_PASSWORD_H
#define COLLCTL_CMD_TEXT_ASK_PASSWORD_H

#include <stddef.h>

/* Ask @question on the terminal of the process, without echo (ask_password of credentials.h). */
int ask_on_terminal(const char *question, char *text, size_t cap);

#endif
