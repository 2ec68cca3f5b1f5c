/* process.h - tells whether fork() has made this process a child. */
#ifndef BASE_PROCESS_H
#define BASE_PROCESS_H

/**
 * Return a number that is greater in a child than in its parent. If a resource was opened when the
 * number was smaller, this process has inherited the resource by fork(), and it belongs to the
 * parent. Any thread may call this function.
 */
unsigned process_generation(void);

#endif
