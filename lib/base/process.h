/* process.h - tells a process from its children. */
#ifndef BASE_PROCESS_H
#define BASE_PROCESS_H

/**
 * A number that is greater in a child than in its parent. What was opened under another
 * number was inherited by fork(), and belongs to the parent. Any thread.
 */
unsigned process_generation(void);

#endif
