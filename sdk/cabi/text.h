#ifndef WEIR_TEXT_H
#define WEIR_TEXT_H

#define WEIR_TEXT 4096               /* bytes of a thread's last error, with the 0 at its end */
#define WEIR_EXCHANGE_MAX (64 << 10) /* bytes that a rank may exchange */

#ifndef WEIR_VERSION
#define WEIR_VERSION "0.1.0-dev"
#endif

#endif
