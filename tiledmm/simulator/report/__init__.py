"""Reports of counts and findings: traffic by source line, tables and listings, requests and bank conflicts.

In: a kernel's ``Outcome`` and ``Finding``s. Out: a ``Report``, ``Event``s, ``Request``s, ``BankAccess``es; figures by
Nsight Compute's names. May import ``check``, ``execute`` and ``build``.
"""
