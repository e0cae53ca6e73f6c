"""Names of NumPy's that CuPy lacks. Data only."""

from __future__ import annotations

NOT_IN_CUPY = frozenset({
    "ScalarType", "asmatrix", "block", "bmat", "busday_count", "busday_offset", "busdaycalendar", "bytes_", "char",
    "character", "clongdouble", "complex256", "core", "ctypeslib", "datetime64", "datetime_as_string",
    "datetime_data", "dtypes", "einsum_path", "emath", "errstate", "f2py", "flexible", "float128", "frompyfunc",
    "fromregex", "geomspace", "get_include", "getbufsize", "geterr", "geterrcall", "histogram_bin_edges", "info",
    "insert", "is_busday", "isnat", "little_endian", "longdouble", "ma", "matrix", "matvec", "memmap",
    "nanpercentile", "nanquantile", "ndenumerate", "nditer", "nested_iters", "object_", "polyder", "polydiv",
    "polyint", "rec", "recarray", "record", "sctypeDict", "setbufsize", "seterr", "seterrcall", "show_runtime",
    "spacing", "str_", "strings", "test", "timedelta64", "typecodes", "unstack", "vecdot", "vecmat", "void",
})  # fmt: skip
