// The functions of math.h.
#pragma once
#include "functions.h"
#include "rounding.h"
