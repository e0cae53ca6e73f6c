// abs, labs and llabs are there before a kernel's text.
#pragma once
