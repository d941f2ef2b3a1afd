// Several indexes searched as one.
#include "check.hpp"
