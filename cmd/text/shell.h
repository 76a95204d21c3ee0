/* Words of a command line that a user can paste into a shell. */
#ifndef COLLCTL_CMD_TEXT_SHELL_H
#define COLLCTL_CMD_TEXT_SHELL_H

#include <stdio.h>

/* Print a space and @word to @f as a POSIX shell, bash or zsh reads it back: in single quotes if it
 * needs them. */
void shell_print_word(FILE *f, const char *word);

#endif
