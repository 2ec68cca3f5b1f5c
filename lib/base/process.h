/* process.h - tells a process from its children. */
#ifndef BASE_PROCESS_H
#define BASE_PROCESS_H

/**
 * A number that is greater in a child than in its parent. A resource that was opened when
 * the number was smaller was inherited by fork(), and belongs to the parent. Any thread.
 */
unsigned process_generation(void);

#endif
