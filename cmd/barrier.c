/*
 * barrier: `auto` is the join and the verdict, without a mesh: who is missing is known when the
 * time to join is over. A named algorithm runs over its edges, one element of `band` each.
 */
#include "cmd/commands.h"
#include "cmd/joining.h"
#include "cmd/result.h"
#include "lib/base/clock.h"
#include "lib/exec/exec.h"
