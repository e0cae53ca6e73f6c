// C's types and limits are there before a kernel's text.
#pragma once
