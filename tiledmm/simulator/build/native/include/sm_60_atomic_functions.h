// Atomics.
#pragma once
#include "atomics.h"
