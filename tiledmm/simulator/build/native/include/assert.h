// printf, assert, memcpy and clock are there before a kernel's text.
#pragma once
