//go:build !race

#include "textflag.h"

// func Store64(p *uint64, v uint64)
TEXT ·Store64(SB), NOSPLIT, $0-16
	MOVQ p+0(FP), AX
	MOVQ v+8(FP), BX
	MOVQ BX, (AX)
	RET

// func StoreTwo64(p *uint64, v uint64, q *uint64, w uint64)
TEXT ·StoreTwo64(SB), NOSPLIT, $0-32
	MOVQ p+0(FP), AX
	MOVQ v+8(FP), BX
	MOVQ q+16(FP), CX
	MOVQ w+24(FP), DX
	MOVQ BX, (AX)
	MOVQ DX, (CX)
	RET
