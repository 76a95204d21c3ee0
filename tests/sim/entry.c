/* The one place where the simulation calls the product. */
#include "cmd/commands.h"
#include "tests/sim/sim.h"

int entry(int argc, char **argv)
{
	return collctl_main(argc, argv);
}
