/* One trampoline for each function of NCCL: a jump through a slot, so that arguments, results and the stack are as the caller
 * has made them, whatever they are. A slot begins at code that has weir_nccl_resolve fill it. */

#define OWN(name)               \
	.hidden real_nccl##name ;   \
	TRAMPOLINE(real_nccl##name, nccl##name) ; \
	TRAMPOLINE(pnccl##name, pnccl##name)
#define FORWARD(name)           \
	TRAMPOLINE(nccl##name, nccl##name) ; \
	TRAMPOLINE(pnccl##name, pnccl##name)

#define USED(name)              \
	.hidden real_nccl##name ;   \
	TRAMPOLINE(real_nccl##name, nccl##name) ; \
	FORWARD(name)

#define SLOT(label, name)                 \
	.pushsection .data.rel.local, "aw" ;  \
	.balign 8 ;                           \
	slot_##label: .8byte lazy_##label, name_##label ; \
	.popsection ;                         \
	.pushsection .rodata ;                \
	name_##label: .asciz #name ;          \
	.popsection

#if defined(__x86_64__)

#define TRAMPOLINE(label, name)  \
	.globl label ;               \
	.type label, @function ;     \
	.balign 16 ;                 \
	label: endbr64 ;             \
	jmp *slot_##label(%rip) ;    \
	lazy_##label: endbr64 ;      \
	leaq slot_##label(%rip), %r11 ; \
	jmp lazy ;                   \
	.size label, . - label ;     \
	SLOT(label, name)

	.text
	.type lazy, @function
lazy:
	.cfi_startproc
	pushq %rbp
	.cfi_def_cfa_offset 16
	.cfi_offset rbp, -16
	movq %rsp, %rbp
	.cfi_def_cfa_register rbp
	pushq %rdi
	pushq %rsi
	pushq %rdx
	pushq %rcx
	pushq %r8
	pushq %r9
	pushq %rax /* the number of vector registers, of a variadic call */
	pushq %r10
	subq $128, %rsp
	movaps %xmm0, (%rsp)
	movaps %xmm1, 16(%rsp)
	movaps %xmm2, 32(%rsp)
	movaps %xmm3, 48(%rsp)
	movaps %xmm4, 64(%rsp)
	movaps %xmm5, 80(%rsp)
	movaps %xmm6, 96(%rsp)
	movaps %xmm7, 112(%rsp)
	movq %r11, %rdi
	call weir_nccl_resolve
	movq %rax, %r11
	movaps (%rsp), %xmm0
	movaps 16(%rsp), %xmm1
	movaps 32(%rsp), %xmm2
	movaps 48(%rsp), %xmm3
	movaps 64(%rsp), %xmm4
	movaps 80(%rsp), %xmm5
	movaps 96(%rsp), %xmm6
	movaps 112(%rsp), %xmm7
	addq $128, %rsp
	popq %r10
	popq %rax
	popq %r9
	popq %r8
	popq %rcx
	popq %rdx
	popq %rsi
	popq %rdi
	popq %rbp
	.cfi_def_cfa rsp, 8
	jmp *%r11
	.cfi_endproc
	.size lazy, . - lazy

#elif defined(__aarch64__)

#define TRAMPOLINE(label, name)  \
	.globl label ;               \
	.type label, %function ;     \
	.balign 16 ;                 \
	label: hint #34 ;            \
	adrp x16, slot_##label ;     \
	ldr x17, [x16, #:lo12:slot_##label] ; \
	br x17 ;                     \
	lazy_##label: hint #34 ;     \
	adrp x16, slot_##label ;     \
	add x16, x16, #:lo12:slot_##label ; \
	b lazy ;                     \
	.size label, . - label ;     \
	SLOT(label, name)

	.text
	.type lazy, %function
lazy:
	.cfi_startproc
	stp x29, x30, [sp, #-208]!
	.cfi_def_cfa_offset 208
	.cfi_offset x29, -208
	.cfi_offset x30, -200
	mov x29, sp
	stp x0, x1, [sp, #16]
	stp x2, x3, [sp, #32]
	stp x4, x5, [sp, #48]
	stp x6, x7, [sp, #64]
	str x8, [sp, #80] /* where a result goes that is a large struct */
	stp q0, q1, [sp, #96]
	stp q2, q3, [sp, #128]
	stp q4, q5, [sp, #160]
	mov x0, x16
	sub sp, sp, #32
	stp q6, q7, [sp]
	bl weir_nccl_resolve
	mov x17, x0
	ldp q6, q7, [sp]
	add sp, sp, #32
	ldp q4, q5, [sp, #160]
	ldp q2, q3, [sp, #128]
	ldp q0, q1, [sp, #96]
	ldr x8, [sp, #80]
	ldp x6, x7, [sp, #64]
	ldp x4, x5, [sp, #48]
	ldp x2, x3, [sp, #32]
	ldp x0, x1, [sp, #16]
	ldp x29, x30, [sp], #208
	.cfi_def_cfa_offset 0
	br x17
	.cfi_endproc
	.size lazy, . - lazy

#else
#error "trampolines are written for x86-64 and aarch64"
#endif

	.hidden weir_nccl_resolve
#include "symbols.h"

	.section .note.GNU-stack, "", %progbits
