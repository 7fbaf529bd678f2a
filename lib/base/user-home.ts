import { homedir } from 'node:os'

/** Below a file there is nothing to read and nothing can be created. */
const nowhere = '/dev/null'

/**
 * Returns the home directory of this process's user. A container may run as a user without HOME and without an entry in
 * /etc/passwd: then Node throws, and this is a place where nothing exists.
 */
export function userHome(): string {
  try {
    return homedir() || nowhere
  } catch {
    return nowhere
  }
}
