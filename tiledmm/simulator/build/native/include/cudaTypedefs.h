// The types of the driver's functions, which device code does not call.
#pragma once
#include <cuda.h>
