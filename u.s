	.file	"u.cpp"
	.text
.Ltext0:
	.file 0 "/tmp/wt/lang" "u.cpp"
	.type	_sub_I_00099_0, @function
_sub_I_00099_0:
.LFB197:
	.cfi_startproc
	.file 1 "/tmp/oldnative/tiledmm/simulator/native/cuda.h"
	.loc 1 96 49
	subq	$8, %rsp
	.cfi_def_cfa_offset 16
	call	__tsan_init@PLT
	addq	$8, %rsp
	.cfi_def_cfa_offset 8
	ret
	.cfi_endproc
.LFE197:
	.size	_sub_I_00099_0, .-_sub_I_00099_0
	.section	.init_array.00099,"aw"
	.align 8
	.quad	_sub_I_00099_0
	.text
.Letext0:
	.section	.debug_line,"",@progbits
.Ldebug_line0:
	.section	.debug_str,"MS",@progbits,1
.LASF2:
	.ascii	"GNU C++17 12.2.0 -mfma -mtune=generic -march=x86-64 -g1 -Og "
	.ascii	"-std=c++17 -fPIC -fno"
	.string	"-exceptions -fno-rtti -fvisibility=hidden -fno-strict-aliasing -ffp-contract=fast -fno-tree-vectorize -fno-math-errno -fno-stack-protector -fno-extern-tls-init -fsanitize=thread -fsanitize=bounds -ftrivial-auto-var-init=pattern -fasynchronous-unwind-tables"
	.section	.debug_line_str,"MS",@progbits,1
.LASF0:
	.string	"u.cpp"
.LASF1:
	.string	"/tmp/wt/lang"
	.ident	"GCC: (Debian 12.2.0-14+deb12u1) 12.2.0"
	.section	.note.GNU-stack,"",@progbits
