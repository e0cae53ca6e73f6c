// Votes, shuffles and intrinsics.
#pragma once
#include "warps.h"
