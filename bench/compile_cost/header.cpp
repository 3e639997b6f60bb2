// What every file pays that includes all of the library.
#include "lockstep/lockstep.hpp"
