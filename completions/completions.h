/* Completion scripts, generated from the tables of commands, options and algorithms. */
#ifndef COLLCTL_COMPLETIONS_COMPLETIONS_H
#define COLLCTL_COMPLETIONS_COMPLETIONS_H

#include <stdio.h>

/* @shell: "bash", "zsh" or "fish". */
void completions_print(FILE *f, const char *shell);

#endif
