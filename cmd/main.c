#include "cmd/commands.h"

int main(int argc, char **argv)
{
	return collctl_main(argc, argv);
}
